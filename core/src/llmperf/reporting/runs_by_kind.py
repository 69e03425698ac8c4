"""A folder of runs by kind: the page of `llmperf summary`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from llmperf.reporting import cells
from llmperf.reporting.cost_rows import kind_cost_text, price_lines
from llmperf.reporting.kind_texts import (
    baseline_lines,
    disturbed_lines,
    kind_changes,
    kind_devices,
    phase_text,
    short_text,
)
from llmperf.reporting.overview import in_order
from llmperf.reporting.page import MAX_LINE, Line, Page
from llmperf.reporting.result_sheets import result_sheet
from llmperf.reporting.sparkline import sparkline
from llmperf.reporting.text_table import Column
from llmperf.reporting.words import sentence, word
from llmperf.results.baselines import AnyComparison, BaselineComparison, RunComparison
from llmperf.results.comparison import Comparison
from llmperf.results.groups import Group, throughputs
from llmperf.types.prices import Prices

ComparedKind = tuple[Group, AnyComparison | None]
"""Runs of one kind, and how they compare with their baseline."""

COLUMNS = (
    Column(title="device", importance=2, wraps=22),
    Column(title="framework", importance=3, wraps=12),
    Column(title="layout", importance=8, wraps=24),
    Column(title="tuning", importance=9, wraps=16),
    Column(title="runs", importance=4, right=True),
    Column(title="token/p/s", importance=1, right=True),
    Column(title="spread", importance=7, right=True),
    Column(title="by run", importance=6),
    Column(title="best", importance=10, right=True),
)
COST_COLUMN = Column(title="cost per million tokens", importance=5, wraps=10, right=True)
"""Of runs whose devices have prices."""
BASELINE_COLUMNS = (
    Column(title="of baseline", importance=5, right=True),
    Column(title="verdict", importance=5, wraps=22),
    Column(title="baseline", importance=11, wraps=16),
)
"""Further columns of runs that are compared with a baseline."""
MAX_WARNED = 3
"""Kinds of run with a warning of their own; of more, there is one for all."""
HOW = (
    "token/p/s: median of the complete runs; spread: (maximum - minimum) / median; by run: token/p/s of each run, the"
    " oldest first, drawn from the lowest to the highest"
)


def fastest_first(kinds: Sequence[ComparedKind]) -> list[ComparedKind]:
    """Kinds of runs by model and contract, the one with the fastest median first."""
    return in_order(
        kinds,
        lambda kind: result_sheet(kind[0].results[0]),
        lambda kind: kind[0].spread.median if kind[0].spread else None,
    )


def summary_page(
    kinds: Sequence[ComparedKind],
    with_baseline: bool,
    language: str = "en",
    encoding: str | None = "utf-8",
    prices: Prices | None = None,
) -> Page:
    """Kinds of runs in the order of `fastest_first`, those of one model and contract under one heading.

    `encoding` is that of the output, which may have no characters for small charts. With `prices` there is a column for
    the cost.
    """
    costs: list[tuple[str, ...]] = [()] * len(kinds)
    if prices is not None:
        costs = [(kind_cost_text(group, prices),) for group, _ in kinds]
    priced = () if prices is None else price_lines((group.kind.device for group, _ in kinds), prices)
    groups = [(key, len(list(members))) for key, members in groupby(kinds, lambda kind: _contract(kind[0], language))]
    figures = [comparison for _, comparison in kinds if isinstance(comparison, BaselineComparison)]
    count = sentence("{all} kind of run" if len(kinds) == 1 else "{all} kinds of run", language, all=len(kinds))
    return Page(
        title=f"{word('Summary', language)}, {count}",
        columns=(*COLUMNS, *[COST_COLUMN] * (prices is not None), *BASELINE_COLUMNS * with_baseline),
        rows=tuple(
            _kind_row(group, language, encoding) + cost + _baseline(comparison, language) * with_baseline
            for (group, comparison), cost in zip(kinds, costs, strict=True)
        ),
        groups=tuple((heading, number) for (heading, _), number in groups),
        warnings=tuple(_warnings(kinds, language)),
        notes=(
            *(Line(text=line) for line in baseline_lines(figures, language)),
            Line(text=word(HOW, language), tone="context"),
            *(Line(text=cells.printable(line, MAX_LINE), tone="context") for line in priced),
        ),
    )


def _contract(group: Group, language: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The heading of a contract, and what tells it from others."""
    first, kind = group.results[0], group.kind
    contract = first.contract
    values = {"model": first.model.name, "phase": phase_text(first, language), "case": kind.case}
    values |= {"variant": word(" (variant)", language) * first.variant, "precision": contract.precision}
    text = "{model}, {phase}: {case}{variant}, {precision}, {seq_len} tokens x {batch}"
    heading = sentence(text, language, **values, seq_len=contract.seq_len, batch=contract.global_batch)
    if changed := cells.settings(kind.contract):
        heading += sentence("; changed: {changes}", language, changes=changed)
    return cells.printable(heading, MAX_LINE), tuple(sorted(result_sheet(first).contract.items()))


def _kind_row(group: Group, language: str, encoding: str | None) -> tuple[str, ...]:
    """One kind of runs: how many, the median, the spread and the best of token/p/s."""
    kind, spread = group.kind, group.spread
    complete = sum(result.status == "complete" for result in group.results)
    runs = str(complete)
    if complete < len(group.results):
        runs = sentence("{complete} of {all}", language, complete=complete, all=len(group.results))
    median = relative = best = cells.UNKNOWN
    if spread is not None:
        best, median = (cells.rounded(speed, cells.THROUGHPUT) for speed in (spread.maximum, spread.median))
        relative = cells.percent(spread.relative)
    in_time = sorted(group.results, key=lambda result: result.run_id)  # ids begin with the time
    history = sparkline(throughputs(in_time), encoding=encoding)
    layout, tuning = word(cells.layout(kind.layout), language), cells.settings(kind.tuning) or "/"
    row = [
        kind_devices(kind), kind.framework, layout, tuning, runs,
        median, relative, history or cells.UNKNOWN, best,
    ]  # fmt: skip
    return tuple(map(cells.printable, row))


def _baseline(comparison: AnyComparison | None, language: str) -> tuple[str, ...]:
    """The share of the baseline, whether the difference may be chance, and what the baseline is."""
    if comparison is None:
        return (cells.UNKNOWN,) * 3
    share = cells.UNKNOWN if comparison.share is None else f"{comparison.share:.4f}"
    if isinstance(comparison, BaselineComparison):
        verdict = cells.UNKNOWN if comparison.share is None else word("cannot tell, one figure", language)
        return share, verdict, cells.printable(comparison.place or cells.UNKNOWN)
    baseline = comparison.baseline.kind
    which = word("the same kind", language)
    if not comparison.same_kind:
        which = (
            f"{baseline.framework} {word(cells.layout(baseline.layout), language)}, {kind_changes(baseline, language)}"
        )
    held = comparison.comparison
    return share, cells.UNKNOWN if held is None else verdict_text(held, language), cells.printable(which)


VERDICTS = {"higher": "faster", "lower": "slower"}
"""Verdicts on a throughput in words."""


def verdict_text(comparison: Comparison, language: str = "en") -> str:
    """`slower, p = 0.029`."""
    verdict = word(VERDICTS.get(comparison.verdict, comparison.verdict), language)
    if comparison.p_value is None:
        runs = {"ours": len(comparison.ours), "theirs": len(comparison.theirs)}
        return f"{verdict}, {sentence('{ours} and {theirs} runs', language, **runs)}"
    return f"{verdict}, p = {comparison.p_value:.2g}"


def _warnings(kinds: Sequence[ComparedKind], language: str) -> Iterator[Line]:
    """Which runs, and which runs of their baselines, were disturbed."""
    yield from _disturbed([group for group, _ in kinds], "", language)
    compared = [comparison.baseline for _, comparison in kinds if isinstance(comparison, RunComparison)]
    own = {id(group) for group, _ in kinds}
    baselines = {baseline.kind: baseline for baseline in compared if id(baseline) not in own}
    yield from _disturbed(list(baselines.values()), f"{word('baseline', language)}: ", language)


def _disturbed(groups: Sequence[Group], prefix: str, language: str) -> Iterator[Line]:
    lines = [
        line
        for group in groups
        for line in disturbed_lines(prefix + short_text(group, language), group.results, language)
    ]
    if len(groups) > MAX_WARNED and lines:
        results = [result for group in groups for result in group.results]
        lines = list(disturbed_lines(prefix + word("all kinds", language), results, language))
    yield from lines
