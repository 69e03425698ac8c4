"""From a plan and its records to a Result."""
