"""The JSON Schemas of llmperf."""
