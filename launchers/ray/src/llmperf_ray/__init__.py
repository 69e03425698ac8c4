"""The launcher `ray` of llmperf: runs on a Ray cluster."""
