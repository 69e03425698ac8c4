"""A folder of runs by kind: the table of `llmperf summary`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmperf.reporting import cells
from llmperf.reporting.comparison import disturbed_lines, kind_changes, kind_devices, kind_text
from llmperf.reporting.overview import in_order, model_text
from llmperf.reporting.result_sheets import result_sheet
from llmperf.reporting.text_table import Column
from llmperf.results.baselines import AnyComparison, RunComparison
from llmperf.results.comparison import Comparison
from llmperf.results.groups import Group

ComparedKind = tuple[Group, AnyComparison | None]
"""Runs of one kind, and how they compare with their baseline."""

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
"""Further columns of runs that are compared with a baseline."""


def fastest_first(kinds: Sequence[ComparedKind]) -> list[ComparedKind]:
    """Kinds of runs by model and contract, the one with the fastest median first."""
    return in_order(
        kinds,
        lambda kind: result_sheet(kind[0].results[0]),
        lambda kind: kind[0].spread.median if kind[0].spread else None,
    )


def kind_row(group: Group, comparison: AnyComparison | None, with_baseline: bool) -> list[str]:
    """One kind of runs: how many, the best, the median and the spread of token/p/s, and its share of the baseline."""
    kind, spread = group.kind, group.spread
    complete = sum(result.status == "complete" for result in group.results)
    runs = str(complete) if complete == len(group.results) else f"{complete} of {len(group.results)} complete"
    figures = [cells.UNKNOWN] * 3
    if spread is not None:
        speeds = (cells.rounded(speed, cells.THROUGHPUT) for speed in (spread.maximum, spread.median))
        figures = [*speeds, cells.percent(spread.relative)]
    share = None if comparison is None else comparison.share
    first = group.results[0]
    row = [
        model_text(first.model.name, first.contract.lora is not None),
        f"{kind.case}{' (variant)' * first.variant}",
        cells.settings(kind.contract + kind.tuning) or "/",
        kind_devices(kind),
        _layout(group),
        runs,
        *figures,
        cells.UNKNOWN if share is None else f"{share:.4f}",
    ]
    return [cells.printable(cell) for cell in row + (_baseline(comparison) if with_baseline else [])]


def _layout(group: Group) -> str:
    return f"{group.kind.framework} {cells.layout(group.kind.layout)}"


def _baseline(comparison: AnyComparison | None) -> list[str]:
    """The baseline, and whether the difference may be chance."""
    if comparison is None:
        return [cells.UNKNOWN] * 2
    if not isinstance(comparison, RunComparison):
        verdict = cells.UNKNOWN if comparison.share is None else "cannot tell, one figure"
        return [comparison.place or cells.UNKNOWN, verdict]
    kind = f"{_layout(comparison.baseline)}, {kind_changes(comparison.baseline.kind)}"
    which = "the same kind" if comparison.same_kind else kind
    return [which, cells.UNKNOWN if comparison.comparison is None else verdict_text(comparison.comparison)]


def verdict_text(comparison: Comparison) -> str:
    """`lower, p = 0.0286`."""
    if comparison.p_value is None:
        return f"{comparison.verdict}, {len(comparison.ours)} and {len(comparison.theirs)} runs"
    return f"{comparison.verdict}, p = {comparison.p_value:.3g}"


def warnings(kinds: Sequence[ComparedKind]) -> Iterator[str]:
    """Which runs, and which runs of their baselines, were disturbed."""
    for group, _ in kinds:
        yield from disturbed_lines(kind_text(group.kind), group.results)
    baselines = [comparison.baseline for _, comparison in kinds if isinstance(comparison, RunComparison)]
    for kind, baseline in {baseline.kind: baseline for baseline in baselines}.items():
        yield from disturbed_lines(f"baseline, {kind_text(kind)}", baseline.results)
