"""Named so that its frames look like a real framework's in a stack dump."""
