"""The columns of the table of runs."""

from __future__ import annotations

from dataclasses import dataclass

from llmperf.reporting import AMOUNT, LOSS, PERCENT, SIGNIFICANT, STEP_SECONDS, THROUGHPUT, WATTS
from llmperf.types import Rounding
from llmperf_compare.comparison_page import COMPARED

DAYS = Rounding(style="amount", digits=4, divisor=86400)
GIB = Rounding(style="decimals", digits=1, divisor=2**30)

COMPUTED = {"mfu_nominal": "mfu_computed"}
"""Key of the row that is shown, marked as computed, where a document prints no figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageColumn:
    """One column of the table of runs."""

    field: str
    """Name in the page's data."""
    key: str
    """Key of the row of a sheet that is shown."""
    title: str
    """English title."""
    rounding: Rounding | None = None
    """How numbers are shown; None for a column of text."""
    also: str = ""
    """Key of the row that is shown, marked as computed, where the first is unknown."""
    figure: str = ""
    """Key in `Entry.figures`, if it is not `key`."""
    chosen: bool = True
    """The column is shown at first."""
    less_is_better: bool = False
    """The first click puts the least value on top."""
    cost: bool = False
    """It follows from prices, the tokens of a training or other runs; only for sheets whose overview has it."""


COLUMNS = (
    PageColumn(field="model", key="model", title="model"),
    PageColumn(field="device", key="device", title="device"),
    PageColumn(field="throughput", key="tokens_per_second_per_device", title="token/p/s", rounding=THROUGHPUT),
    PageColumn(field="mfu", key="mfu_nominal", also="mfu_computed", title="MFU (nominal)", rounding=PERCENT),
    PageColumn(field="joules", key="joules_per_token", title="J per token", rounding=SIGNIFICANT, less_is_better=True),
    *(
        PageColumn(field=field, key=key, title=title, rounding=rounding, less_is_better=True, cost=True)
        for field, key, title, rounding in (
            ("cost", "cost_per_million_tokens", "cost per million tokens", AMOUNT),
            ("train_cost", "train_cost", "cost of a training", AMOUNT),
            ("train_hours", "train_device_hours", "training, device hours", AMOUNT),
            ("train_days", "train_seconds", "training, days", DAYS),
        )
    ),
    PageColumn(field="scaling", key="scaling_efficiency", title="scaling efficiency", rounding=PERCENT, cost=True),
    PageColumn(field="loss", key="final_loss", title="loss", rounding=LOSS),
    PageColumn(field="memory", key="device_memory_used_bytes", title="memory of a device, GiB", rounding=GIB),
    PageColumn(field="layout", key="layout", title="layout"),
    PageColumn(field="case", key="case", title="case"),
    PageColumn(field="fix_hp", key="fix_hp", title="fix_hp"),
    PageColumn(field="status", key="status", title="status"),
    PageColumn(field="step", key="step_seconds_median", figure="step_seconds", title="step, s", rounding=STEP_SECONDS,
               less_is_better=True, chosen=False),
    PageColumn(field="power", key="power_watts", title="power, W", rounding=WATTS, chosen=False),
    PageColumn(field="verification", key="verification", title="verified", chosen=False),
    PageColumn(field="created", key="created", title="made", chosen=False),
    PageColumn(field="run", key="run_id", title="run"),
)  # fmt: skip
COMPARED_FIGURES = (*COMPARED, *(column.key for column in COLUMNS if column.cost))
"""Keys of the figures of a comparison."""
ALWAYS = ("model", "throughput", "status", "run")
"""Columns that can be chosen even if no run has a value for them."""
