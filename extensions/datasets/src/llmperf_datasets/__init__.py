"""Data sets of text, NumPy, SAMSum, Megatron and Hugging Face as tokens."""
