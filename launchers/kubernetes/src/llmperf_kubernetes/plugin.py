"""Hook implementations of the launcher `kubernetes`."""
