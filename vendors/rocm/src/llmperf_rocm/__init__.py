"""AMD GPUs through ROCm under llmperf."""
