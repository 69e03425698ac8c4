"""The built-in engine: Megatron-style layers in DeepSpeed's pipeline, with ZeRO-1."""
