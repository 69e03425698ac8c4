"""Hook implementations of the launcher `ray`."""
