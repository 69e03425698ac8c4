"""llmperf extension: what devices achieve in single operations, and the place of runs on the roofline."""
