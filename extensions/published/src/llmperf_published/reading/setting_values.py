"""What the value of one setting stands for: `4096`, `8k tokens`, `True`, `stage2`."""

from __future__ import annotations

from llmperf_published.reading.cell_text import normal
from llmperf_published.reading.numbers import length, whole
from llmperf_published.reading.settings import stage_in, truth

_SWITCHES = ("gradient_checkpointing", "fused_rms_norm")


def setting_number(name: str, text: str | None) -> int | None:
    """A positive whole number; of a sequence length also `4K`, which is 4096, and `4096 tokens`."""
    words = normal(text or "")
    return length(words) if name == "seq_len" else whole(words)


def expected_of(name: str, text: str) -> str | None:
    """What was expected in place of a setting's value; None where it is understood."""
    if name == "sharding_stage":
        return None if stage_in(text) is not None else "a sharding stage from 0 to 3"
    if name == "attention":
        known = truth(text) is not None or "flash" in text.lower()
        return None if known else "true, false or flash"
    if name in _SWITCHES:
        return None if truth(text) is not None else "true or false"
    return None if setting_number(name, text) is not None else "a whole number above 0"
