"""`llmperf tune`: settings found by measuring."""
