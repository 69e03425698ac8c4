"""NVIDIA's megatron-core under llmperf, unmodified: its models, layouts, schedules and optimiser."""
