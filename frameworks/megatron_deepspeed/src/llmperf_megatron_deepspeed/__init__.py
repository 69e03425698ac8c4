"""llmperf framework plugin: tensor x pipeline x data parallel training with ZeRO-1 on DeepSpeed."""
