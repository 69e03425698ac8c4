"""llmperf framework plugin `lora`."""
