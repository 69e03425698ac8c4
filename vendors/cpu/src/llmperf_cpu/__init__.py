"""The host CPU as an accelerator: the vendor plugin that every machine can use."""
