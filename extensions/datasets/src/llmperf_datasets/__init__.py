"""Data sets of text, SAMSum, Megatron and Hugging Face as tokens."""
