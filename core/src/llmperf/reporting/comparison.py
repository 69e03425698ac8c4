"""Two groups of runs side by side, and a folder of runs by kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING

from llmperf.reporting import cells
from llmperf.results.comparison import Comparison
from llmperf.results.groups import Group
from llmperf.types import Result

if TYPE_CHECKING:
    from llmperf.baselines import Held

MAX_LINE = 1000
"""Characters."""

Figure = Callable[[Result], float | None]

FIGURES: dict[str, Figure] = {
    "token/p/s": lambda one: one.metrics.tokens_per_second_per_device,
    "step, s": lambda one: None if one.metrics.step_seconds is None else one.metrics.step_seconds.median,
    "MFU (nominal)": cells.headline_mfu,
    "memory of a rank, GiB": lambda one: _gib(cells.rank_peak(one)),
    "memory of a device, GiB": lambda one: _gib(one.metrics.device_memory_used_bytes),
    "power of a device, W": lambda one: one.metrics.power_watts,
    "energy, J a token": lambda one: one.metrics.joules_per_token,
    "final loss": lambda one: one.metrics.final_loss,
}
"""What is compared, by the name of its row."""


def figure_rows(ours: Sequence[Result], theirs: Sequence[Result]) -> Iterator[list[str]]:
    """A row a figure that either group has: its name, the two medians, their ratio."""
    for name, figure in FIGURES.items():
        one, other = _median(ours, figure), _median(theirs, figure)
        if one is None and other is None:
            continue
        ratio = cells.UNKNOWN if one is None or not other else f"{one / other:.4f}"
        yield [name, cells.significant(one), cells.significant(other), ratio]


def _gib(count: int | None) -> float | None:
    return None if count is None else count / 2**30


def _median(results: Sequence[Result], figure: Figure) -> float | None:
    known = [value for one in results if (value := figure(one)) is not None]
    return median(known) if known else None


def verdict(found: Comparison) -> str:
    """One line on the throughput."""
    interval = "" if found.low is None else f", 95 % interval {found.low:.4f} to {found.high:.4f}"
    return f"token/p/s: {found.verdict}: ratio {found.ratio:.4f}{interval}; {found.why}"


ONE_FIGURE = "a published row is one figure without its spread: whether a difference is significant cannot be told"


def published_lines(held: Sequence[Held]) -> Iterator[str]:
    """For each kind of runs the published row it is held against, or why there is none."""
    for one in held:
        kind = one.group.kind
        who = f"{kind.case} on {kind.layout.nodes}x{kind.layout.devices_per_node} {kind.device}"
        share = f"{one.share:.4f} of " if one.share is not None else ""
        yield cells.printable(f"{who}: {share}{one.why}", MAX_LINE)
    if any(one.share is not None for one in held):
        yield ONE_FIGURE


SUMMARY_HEADERS = ("case", "changes", "device", "layout", "runs", "best", "median", "spread", "of baseline")


def summary_row(group: Group, share: float | None) -> list[str]:
    """One kind of runs: how many, the best, the median and the spread of token/p/s, and its share of a baseline."""
    kind, found = group.kind, group.spread
    changes = cells.settings(kind.contract + kind.tuning)
    complete = sum(one.status == "complete" for one in group.results)
    runs = str(complete) if complete == len(group.results) else f"{complete} of {len(group.results)} complete"
    figures = [cells.UNKNOWN] * 3
    if found is not None:
        figures = [cells.number(found.maximum), cells.number(found.median), cells.percent(found.relative)]
    layout = f"{kind.framework} {cells.layout(kind.layout)}"
    device = f"{kind.layout.nodes}x{kind.layout.devices_per_node} {kind.device}"
    of_baseline = cells.UNKNOWN if share is None else f"{share:.4f}"
    return [cells.printable(one) for one in (kind.case, changes or "/", device, layout, runs, *figures, of_baseline)]
