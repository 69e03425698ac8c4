"""The checks, in the order in which they are made."""
