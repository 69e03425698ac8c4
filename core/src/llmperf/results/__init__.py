"""Build a Result from a plan and its records."""
