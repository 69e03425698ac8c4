"""Rules over results and their records, and those of the levels of verification."""
