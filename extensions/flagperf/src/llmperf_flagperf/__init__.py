"""FlagPerf's configurations as cases of llmperf, and results of llmperf as FlagPerf's table."""
