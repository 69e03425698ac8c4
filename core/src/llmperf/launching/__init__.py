"""Starts the ranks of a plan through a launcher, watches them, and ends them."""
