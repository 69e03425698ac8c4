"""`llmperf site`: results as a static website."""
