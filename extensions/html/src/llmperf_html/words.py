"""Texts of the page, by the name that its scripts use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from llmperf import read_toml

LABELS = {
    "step_seconds_median": "step, s",
    "rank_peak_bytes": "memory of a rank, GiB",
    "joules_per_token": "energy, J a token",
    "cost_per_million_tokens": "cost per million tokens",
}
"""Labels of compared figures that no run of a report may have."""
MEMORY = ("rank_peak_bytes", "device_memory_used_bytes")
"""Keys of figures whose ratio to a published figure means nothing: documents do not say what theirs count."""
IN_USE_BY_ALL = "device_memory_used_bytes"
"""On a device that ranks share, such as a host, this counts other processes too: it gets no ratio."""

WORDS: Mapping[str, str] = read_toml(Path(__file__).with_name("web") / "words.toml")
"""By that name."""

NO_LOSS = "No curves: there is no loss and there are no records."
TOO_LARGE = "No curves: with them the report would be too large."
NO_RECORDS = "No curves: an imported row has no records."
