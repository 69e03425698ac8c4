"""`llmperf new`: a complete plugin package from a name."""
