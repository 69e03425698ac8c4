"""Plain PyTorch under llmperf, and the models, data and schedule that the torch-based frameworks share."""
