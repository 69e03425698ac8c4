"""llmperf extension `estimate`: memory and time of a step from its trace and the rates of a device; nothing is run."""
