"""Reports on published tables."""
