"""Chinese texts of llmperf and of its packages."""
