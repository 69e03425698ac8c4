"""A folder of runs by kind: the page of `llmperf summary`."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from llmperf import read_toml
from llmperf.reporting import (
    COMPUTED_MFU,
    THROUGHPUT,
    UNKNOWN,
    Column,
    has_computed_mfu,
    in_order,
    layout,
    mostly_disturbed,
    percent,
    printable,
    result_sheet,
    rounded,
    sentence,
    settings,
    shown,
    sparkline,
    throughputs,
    word,
)

from llmperf_compare.comparison import Comparison
from llmperf_compare.cost import COST_COLUMNS, Costing, in_table, price_lines
from llmperf_compare.kind_texts import (
    baseline_lines,
    disturbed_lines,
    kind_changes,
    kind_devices,
    phase_text,
    short_text,
)
from llmperf_compare.kinds import AnyComparison, BaselineComparison, Group, RunComparison
from llmperf_compare.page import MAX_LINE, Line, Page
from llmperf_compare.ranked_kinds import (
    ComparedKind,
    ImportedRow,
    Ranked,
    cost_rows_of,
    device_of,
    imported_cells,
    imported_heading,
    provenance_cells,
    scaling_of,
)
from llmperf_compare.scaling import SCALING_ASSUMES, SCALING_COLUMN

COLUMNS = {
    kind: [Column(**column) for column in columns]
    for kind, columns in read_toml(Path(__file__).with_suffix(".toml")).items()
}
IMPORTED = (
    "imported: figures that a document prints, without runs and spread; `agrees` says only that they agree with each"
    " other"
)
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
        lambda kind: mostly_disturbed(kind[0].results),
    )


def summary_page(
    ranking: Sequence[Ranked],
    with_baseline: bool,
    language: str = "en",
    encoding: str | None = "utf-8",
    costing: Costing | None = None,
) -> Page:
    """Kinds of runs, and imported rows beside them, in the order of `ranked_kinds`; one heading for each contract."""
    kinds = [member for member in ranking if not isinstance(member, ImportedRow)]
    imported = [member for member in ranking if isinstance(member, ImportedRow)]
    costs = [
        {} if costing is None else {row.key: row for row in in_table(cost_rows_of(member, costing), costing)}
        for member in ranking
    ]
    scaled = scaling_of(ranking)
    added = {key: column for key, column in COST_COLUMNS.items() if any(key in cost for cost in costs)}
    rows = [
        (
            *(
                imported_cells(member, language)
                if isinstance(member, ImportedRow)
                else _kind_row(member[0], language, encoding)
            ),
            *(provenance_cells(member, language) if imported else ()),
            *(shown(cost[key]) if key in cost else UNKNOWN for key in added),
            *([percent(scaled.get(place))] if scaled else []),
            *(_baseline(None if isinstance(member, ImportedRow) else member[1], language) if with_baseline else ()),
        )
        for place, (member, cost) in enumerate(zip(ranking, costs, strict=True))
    ]
    figures = [comparison for _, comparison in kinds if isinstance(comparison, BaselineComparison)]
    count = sentence("{all} kind of run" if len(kinds) == 1 else "{all} kinds of run", language, all=len(kinds))
    if imported:
        number = len({id(row.sheet) for row in imported})
        count += sentence(", {all} imported row" if number == 1 else ", {all} imported rows", language, all=number)
    compared = [comparison.baseline for _, comparison in kinds if isinstance(comparison, RunComparison)]
    baselines = {baseline.kind: baseline for baseline in compared if all(baseline is not group for group, _ in kinds)}
    devices = list(map(device_of, ranking))
    context = [word(HOW, language)]
    context += [word(IMPORTED, language)] if imported else []
    context += [word(COMPUTED_MFU, language)] if any(has_computed_mfu(row.sheet) for row in imported) else []
    context += [word(SCALING_ASSUMES, language)] if scaled else []
    context += (
        [] if costing is None else [printable(line, MAX_LINE) for line in price_lines(devices, costing, language)]
    )
    return Page(
        title=f"{word('Summary', language)}, {count}",
        columns=(
            *COLUMNS["runs"],
            *(COLUMNS["imported"] if imported else ()),
            *added.values(),
            *([SCALING_COLUMN] if scaled else []),
            *(COLUMNS["baseline"] if with_baseline else ()),
        ),
        rows=tuple(rows),
        groups=tuple(
            (heading, len(list(members)))
            for (heading, _), members in groupby(_headings(ranking, language), lambda each: each)
        ),
        warnings=(
            *_disturbed([group for group, _ in kinds], "", language),
            *_disturbed(list(baselines.values()), sentence("baseline: ", language), language),
        ),
        notes=(
            *(Line(text=line) for line in baseline_lines(figures, language)),
            *(Line(text=text, tone="context") for text in context),
        ),
    )


def _headings(ranking: Sequence[Ranked], language: str) -> list[tuple[str, Hashable]]:
    """The heading of each row, and what tells its contract from others; an imported row has that of the runs beside."""
    of_runs: dict[Hashable, str] = {}
    for member in ranking:
        if not isinstance(member, ImportedRow):
            heading, contract = _contract(member[0], language)
            of_runs.setdefault(contract, heading)
    headings: list[tuple[str, Hashable]] = []
    for member in ranking:
        if not isinstance(member, ImportedRow):
            headings.append(_contract(member[0], language))
            continue
        contract = tuple(sorted(member.standing.contract.items()))
        if not member.standing.measured:
            headings.append((imported_heading(member, language), (member.standing.model, contract)))
        elif headings and headings[-1][1] == contract:
            headings.append(headings[-1])
        else:
            headings.append((of_runs.get(contract, imported_heading(member, language)), contract))
    return headings


def _contract(group: Group, language: str) -> tuple[str, Hashable]:
    """The heading of a contract, and what tells it from others."""
    first, kind = group.results[0], group.kind
    contract = first.contract
    values = {"model": first.model.name, "phase": phase_text(first, language), "case": kind.case}
    values |= {"variant": word(" (variant)", language) * first.variant, "precision": contract.precision}
    text = "{model}, {phase}: {case}{variant}, {precision}, {seq_len} tokens x {batch}"
    heading = sentence(text, language, **values, seq_len=contract.seq_len, batch=contract.global_batch)
    if changed := settings(kind.contract):
        heading += sentence("; changed: {changes}", language, changes=changed)
    return printable(heading, MAX_LINE), tuple(sorted(result_sheet(first).contract.items()))


def _kind_row(group: Group, language: str, encoding: str | None) -> tuple[str, ...]:
    """One kind of runs: how many, the median, the spread and the best of token/p/s."""
    kind, spread = group.kind, group.spread
    complete = sum(result.status == "complete" for result in group.results)
    runs = str(complete)
    if complete < len(group.results):
        runs = sentence("{complete} of {all}", language, complete=complete, all=len(group.results))
    median = relative = best = UNKNOWN
    if spread is not None:
        best, median = (rounded(speed, THROUGHPUT) for speed in (spread.maximum, spread.median))
        relative = percent(spread.relative)
    in_time = sorted(group.results, key=lambda result: result.run_id)  # ids begin with the time
    history = sparkline(throughputs(in_time), encoding=encoding)
    changed = [(path, value) for path, value in kind.tuning if path != "tuning.framework"]  # it has a column
    how, tuning = word(layout(kind.layout), language), settings(changed) or "/"
    row = [
        kind_devices(kind), kind.framework, how, tuning, runs,
        median, relative, history or UNKNOWN, best,
    ]  # fmt: skip
    return tuple(map(printable, row))


def _baseline(comparison: AnyComparison | None, language: str) -> tuple[str, ...]:
    """The share of the baseline, whether the difference may be chance, and what the baseline is."""
    if comparison is None:
        return (UNKNOWN,) * 3
    share = UNKNOWN if comparison.share is None else f"{comparison.share:.4f}"
    if isinstance(comparison, BaselineComparison):
        verdict = UNKNOWN if comparison.share is None else word("cannot tell, one figure", language)
        return share, verdict, printable(comparison.place or UNKNOWN)
    baseline = comparison.baseline.kind
    which = word("the same kind", language)
    if not comparison.same_kind:
        which = f"{baseline.framework} {word(layout(baseline.layout), language)}, {kind_changes(baseline, language)}"
    held = comparison.comparison
    return share, UNKNOWN if held is None else verdict_text(held, language), printable(which)


VERDICTS = {"higher": "faster", "lower": "slower"}
"""Verdicts on a throughput in words."""


def verdict_text(comparison: Comparison, language: str = "en") -> str:
    """`slower, p = 0.029`."""
    verdict = word(VERDICTS.get(comparison.verdict, comparison.verdict), language)
    if comparison.p_value is None:
        runs = {"ours": len(comparison.ours), "theirs": len(comparison.theirs)}
        return f"{verdict}, {sentence('{ours} and {theirs} runs', language, **runs)}"
    return f"{verdict}, p = {comparison.p_value:.2g}"


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
