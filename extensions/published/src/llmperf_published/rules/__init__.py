"""Rules over published tables."""
