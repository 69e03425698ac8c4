"""llmperf extension `trace`: where the time of a step goes, by the frameworks' profilers."""
