"""llmperf extension `tracking`: logs runs to TensorBoard, MLflow, Weights & Biases and OpenMetrics files."""
