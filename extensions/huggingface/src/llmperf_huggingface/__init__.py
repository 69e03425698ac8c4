"""llmperf extension: models from and as configurations of Hugging Face."""
