"""Hugging Face transformers under llmperf: its own model classes, with the weights, data and stopwatch of a case."""
