"""torchtitan under llmperf, unmodified: its models, its parallelism, its own step."""
