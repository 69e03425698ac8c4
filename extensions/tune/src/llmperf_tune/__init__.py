"""llmperf extension `tune`: settings found by measuring."""
