"""Short measurements on each node before a run, by which slow nodes and closed ports are found."""
