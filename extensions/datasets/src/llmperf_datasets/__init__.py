"""Data sets of text, SAMSum, Megatron and Hugging Face as tokens."""

from __future__ import annotations

from llmperf_datasets.text import open_encoder as open_encoder
