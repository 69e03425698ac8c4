"""The columns of the HTML report's table, and what its page says."""

from __future__ import annotations

from collections.abc import Sequence

COLUMNS: Sequence[tuple[str, str, str, int, int, bool]] = (
    ("run", "run", "text", 0, 210, True),
    ("status", "status", "text", 0, 120, True),
    ("throughput", "token/p/s", "number", 1, 118, True),
    ("mfu", "MFU (nominal), %", "number", 2, 112, True),
    ("loss", "loss", "number", 4, 104, True),
    ("memory", "memory of a device, GiB", "number", 1, 124, True),
    ("case", "case", "text", 0, 190, True),
    ("device", "device", "text", 0, 190, True),
    ("framework", "framework", "text", 0, 126, True),
    ("layout", "layout", "text", 0, 160, False),
    ("fix_hp", "fix_hp", "text", 0, 240, True),
    ("errors", "validation errors", "number", 0, 116, False),
    ("power", "power, W", "number", 0, 86, False),
    ("provenance", "provenance", "text", 0, 110, False),
    ("created", "made", "text", 0, 150, False),
)
"""Field, title, kind, digits after the point, width in pixels, whether it is printed."""

WORDS = {
    "loss": "loss",
    "step": "step",
    "loss_axis": "loss, nats per token",
    "step_seconds": "step time",
    "step_seconds_axis": "step time, s",
    "memory_bytes": "memory in use on a device",
    "memory_bytes_axis": "memory, GiB",
    "power_watts": "power of a device",
    "power_watts_axis": "power, W",
    "utilisation_percent": "utilisation of a device",
    "utilisation_percent_axis": "utilisation, %",
    "since_window": "seconds since the window began",
    "since_sample": "seconds since the first sample",
    "entropy": "known entropy of the data",
    "warmup": "warm-up: not measured",
    "outside": "outside the measured window",
    "band_ranks": "5 % to 95 % of ranks",
    "band_devices": "5 % to 95 % of devices",
    "both_ranks": "range of both ranks",
    "both_devices": "range of both devices",
    "neighbours": "range of neighbouring points",
    "findings": "Findings",
    "no_findings": "No findings.",
    "contracts_differ": "The contracts differ, so the figures measure different things: no ratio. They differ in",
    "settings_differ": "They were run differently:",
    "not_told": "Not told, so nobody knows whether it is the same:",
    "not_complete": "Not complete, so no ratio is shown:",
    "memory_unlike": "No ratio of memory: what a published figure of it counts is not told.",
    "one_each": "One run each tells nothing of the spread: whether a difference is significant cannot be told "
    "(llmperf run --repeat 4, llmperf compare).",
    "figure": "figure",
    "open": "open",
    "back": "Back to the overview",
    "compare": "compare",
    "compare_two": "Compare the two chosen runs",
    "chosen": "{chosen} chosen: choose two.",
    "shown": "{shown} of {all} runs",
    "filter": "filter",
    "search": "Search",
    "overview": "runs",
    "nothing": "No run fits.",
}

NO_LOSS = "No curves: there is no loss and there are no records."
TOO_LARGE = "No curves: with them the report would be too large."
NO_RECORDS = "No curves: an imported row has no records."
