"""One run from plan to checked result, and whether this machine is ready for one."""
