"""Hook implementations of the launcher `inside`."""
