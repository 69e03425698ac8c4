"""llmperf framework plugin: LoRA fine-tuning with peft, and MMLU."""
