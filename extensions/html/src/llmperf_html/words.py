"""The columns of the HTML report's table, and what its page says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PageColumn:
    """One column of the table of runs."""

    field: str
    """Of the row."""
    title: str
    """In English."""
    width: int
    """In pixels, at least; all columns together fit 1,400 pixels."""
    digits: int | None = None
    """After the point; None for text."""
    paper: bool = True
    """Whether it is printed."""
    rare: bool = False
    """Whether it is shown only where some run has a figure other than 0."""
    grows: bool = False
    """Whether it takes much of what is left of the width."""
    filter: bool = False
    """Whether it has a filter of its own."""


COLUMNS = (
    PageColumn(field="model", title="model", width=108, filter=True, grows=True),
    PageColumn(field="device", title="device", width=114, filter=True, grows=True),
    PageColumn(field="throughput", title="token/p/s", width=92, digits=1),
    PageColumn(field="mfu", title="MFU (nominal), %", width=92, digits=2),
    PageColumn(field="loss", title="loss", width=64, digits=4),
    PageColumn(field="memory", title="memory of a device, GiB", width=78, digits=1),
    PageColumn(field="layout", title="layout", width=114, filter=True, grows=True),
    PageColumn(field="case", title="case", width=104, filter=True, grows=True),
    PageColumn(field="fix_hp", title="fix_hp", width=100, grows=True),
    PageColumn(field="status", title="status", width=80, filter=True),
    PageColumn(field="errors", title="validation errors", width=84, digits=0, paper=False, rare=True),
    PageColumn(field="power", title="power, W", width=58, digits=0, paper=False, rare=True),
    PageColumn(field="created", title="made", width=84, paper=False),
    PageColumn(field="run", title="run", width=100, grows=True),
)

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
    "search_hint": "model, device, framework, case, run ...",
    "skip": "Skip to the runs",
    "as_table": "as a table",
    "lowest": "lowest",
    "highest": "highest",
    "below": "{value}, below this chart",
    "above": "{value}, above this chart",
    "close_curve": "A and B differ by {value} at most, so one covers the other",
    "same_curve": "A and B have the same curve, so one covers the other",
    "overview": "runs",
    "nothing": "No run fits.",
}

NO_LOSS = "No curves: there is no loss and there are no records."
TOO_LARGE = "No curves: with them the report would be too large."
NO_RECORDS = "No curves: an imported row has no records."
