"""llmperf framework plugin `megatron_deepspeed`."""
