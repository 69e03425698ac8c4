"""The commands `llmperf new` and `llmperf check-plugin`."""
