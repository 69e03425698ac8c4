"""The launcher `ssh` of llmperf: runs over SSH."""
