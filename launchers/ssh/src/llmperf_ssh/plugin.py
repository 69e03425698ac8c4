"""Hook implementations of the launcher `ssh`."""
