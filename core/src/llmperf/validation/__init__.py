"""Schema check and semantic rules."""
