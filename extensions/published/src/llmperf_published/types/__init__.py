"""The types of a published document."""
