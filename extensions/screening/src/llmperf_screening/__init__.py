"""llmperf extension `screening`: short measurements of nodes, by which slow nodes and closed ports are found."""
