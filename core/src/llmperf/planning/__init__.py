"""From a RunSpec and a Probe to a Plan, and what does not fit together."""
