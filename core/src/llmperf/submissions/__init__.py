"""Submissions: packing, archives, and recomputing what they state."""
