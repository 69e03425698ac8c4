"""What this package answers to llmperf."""
