"""The columns of the table of runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from llmperf import read_toml
from llmperf.reporting import AMOUNT, LOSS, PERCENT, SIGNIFICANT, STEP_SECONDS, THROUGHPUT, WATTS
from llmperf.types import Rounding
from llmperf_compare.comparison_page import COMPARED

DAYS = Rounding(style="amount", digits=4, divisor=86400)
GIB = Rounding(style="decimals", digits=1, divisor=2**30)
ROUNDINGS = {
    **{"amount": AMOUNT, "days": DAYS, "gib": GIB, "loss": LOSS, "percent": PERCENT, "significant": SIGNIFICANT},
    **{"step_seconds": STEP_SECONDS, "throughput": THROUGHPUT, "watts": WATTS},
}
"""By their names in `columns.toml`."""
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
    bar: int = 0
    """Place of its bars among those of the figures of a contract; 0 if it has none."""
    whole: float | None = None
    """The value of a bar of full length; None for the largest value of a contract."""
    cost: bool = False
    """It follows from prices, the tokens of a training or other runs; only for sheets whose overview has it."""


COLUMNS = tuple(
    PageColumn(**table | {"rounding": ROUNDINGS.get(table.get("rounding"))})
    for table in read_toml(Path(__file__).with_suffix(".toml"))["column"]
)
COMPARED_FIGURES = (*COMPARED, *(column.key for column in COLUMNS if column.cost))
"""Keys of the figures of a comparison."""
ALWAYS = ("model", "throughput", "status", "run")
"""Columns that can be chosen even if no run has a value for them."""
