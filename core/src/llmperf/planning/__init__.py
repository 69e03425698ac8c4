"""Plans a run: from a request to a plan, or to all the problems that prevent it."""
