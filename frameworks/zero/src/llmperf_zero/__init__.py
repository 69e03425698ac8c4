"""DeepSpeed ZeRO under llmperf: stages 0, 1, 2, 3 over the models and data of llmperf_pytorch."""
