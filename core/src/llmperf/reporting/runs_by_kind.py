"""A folder of runs by kind: `llmperf summary`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from llmperf.reporting import cells
from llmperf.reporting.comparison_text import disturbed_lines, kind_changes, kind_devices, kind_text
from llmperf.reporting.ranking import in_order, model_text, ranked_run
from llmperf.reporting.text_table import Column
from llmperf.results.comparison import Comparison
from llmperf.results.groups import Group
from llmperf.results.standing import Standing

if TYPE_CHECKING:
    from llmperf_published.baselines import Held

T = TypeVar("T")

COLUMNS = (
    Column(title="model", importance=1, wraps=14),
    Column(title="case", importance=3, wraps=12),
    Column(title="changes", importance=10, wraps=14),
    Column(title="device", importance=7, wraps=14),
    Column(title="layout", importance=9, wraps=14),
    Column(title="runs", importance=4, wraps=8, right=True),
    Column(title="best", importance=11, right=True),
    Column(title="median", importance=2, right=True),
    Column(title="spread", importance=5, right=True),
    Column(title="of baseline", importance=6, right=True),
)
BASELINE_COLUMNS = (
    Column(title="baseline", importance=12, wraps=16),
    Column(title="verdict", importance=8, wraps=12),
)
"""Where the runs are held against some."""


def in_rank(rows: Sequence[tuple[Group, T]]) -> list[tuple[Group, T]]:
    """Kinds of runs by model and contract, the one with the fastest median first."""
    lines = [
        ranked_run(group.results[0], (group, held), group.spread.median if group.spread else None)
        for group, held in rows
    ]
    return in_order(lines)


def row(group: Group, held: Held | Standing | None, with_baseline: bool) -> list[str]:
    """One kind of runs: how many, the best, the median and the spread of token/p/s, and how it does by its baseline."""
    kind, found = group.kind, group.spread
    changes = cells.settings(kind.contract + kind.tuning)
    complete = sum(one.status == "complete" for one in group.results)
    runs = str(complete) if complete == len(group.results) else f"{complete} of {len(group.results)} complete"
    figures = [cells.UNKNOWN] * 3
    if found is not None:
        figures = [cells.number(found.maximum), cells.number(found.median), cells.percent(found.relative)]
    of_baseline = cells.UNKNOWN if held is None or held.share is None else f"{held.share:.4f}"
    first = group.results[0]
    model = model_text(first.model.name, first.contract.lora is not None)
    case = f"{kind.case}{' (variant)' * first.variant}"
    shown = [model, case, changes or "/", kind_devices(kind), _layout(group), runs, *figures, of_baseline]
    return [cells.printable(one) for one in shown + (_baseline(held) if with_baseline else [])]


def _layout(group: Group) -> str:
    return f"{group.kind.framework} {cells.layout(group.kind.layout)}"


def _baseline(held: Held | Standing | None) -> list[str]:
    """Which baseline it was, and whether chance could make the difference."""
    if held is None:
        return [cells.UNKNOWN] * 2
    if not isinstance(held, Standing):
        return [held.place or cells.UNKNOWN, cells.UNKNOWN if held.share is None else "cannot tell, one figure"]
    which = "the same kind" if held.same_kind else f"{_layout(held.baseline)}, {kind_changes(held.baseline.kind)}"
    return [which, cells.UNKNOWN if held.comparison is None else verdict(held.comparison)]


def verdict(found: Comparison) -> str:
    """`lower, p = 0.0286`."""
    if found.p_value is None:
        return f"{found.verdict}, {len(found.ours)} and {len(found.theirs)} runs"
    return f"{found.verdict}, p = {found.p_value:.3g}"


def warnings(rows: Sequence[tuple[Group, Held | Standing | None]]) -> Iterator[str]:
    """Which runs, and which of their baselines, were disturbed."""
    for group, _ in rows:
        yield from disturbed_lines(kind_text(group.kind), group.results)
    baselines = {held.baseline.kind: held.baseline for _, held in rows if isinstance(held, Standing)}
    for kind, baseline in baselines.items():
        yield from disturbed_lines(f"baseline, {kind_text(kind)}", baseline.results)
