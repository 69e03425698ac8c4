"""Two groups of runs side by side, and runs beside baselines, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from llmperf.reporting import cells
from llmperf.reporting.cells import shown
from llmperf.reporting.result_sheets import figure_rows
from llmperf.reporting.run_setup import contract_parts
from llmperf.results.baselines import BaselineComparison
from llmperf.results.comparison import Comparison
from llmperf.results.comparison_side import Side, Sides
from llmperf.results.groups import Group, Kind, shared, uneven
from llmperf.types import Result, Row
from llmperf.types.result import OTHER_CPU_SHARE

MAX_LINE = 1000
"""Characters."""


COMPARED = (
    "tokens_per_second_per_device",
    "step_seconds_median",
    "mfu_nominal",
    "rank_peak_bytes",
    "device_memory_used_bytes",
    "power_watts",
    "joules_per_token",
    "final_loss",
)
"""Keys of the figures that are compared, in their order."""
OF_A_DEVICE = "tokens/s of a whole device"
IN_USE_BY_ALL = "device_memory_used_bytes"
"""On a device that ranks share, such as a host, this counts other processes too: it gets no ratio."""


def median_rows(
    ours: Sequence[Result], theirs: Sequence[Result], of_devices: bool = False, ratios: bool = True
) -> Iterator[list[str]]:
    """One row for each figure that either group has: its name, the two medians and, with `ratios`, their ratio.

    `of_devices` adds the throughput of a whole device, for ranks that had different shares of one.
    """
    sides = [[figure_rows(result) for result in results] for results in (ours, theirs)]
    divided = any(result.hardware.divided for result in (*ours, *theirs))
    for key in (*COMPARED, "tokens_per_second_per_whole_device")[: None if of_devices else -1]:
        first, second = (median_row([rows[key] for rows in side]) for side in sides)
        if first.value is None and second.value is None:
            continue
        ratio = cells.UNKNOWN
        if key == IN_USE_BY_ALL and divided:
            first = replace(first, label=f"{first.label}, in use by all")
        elif isinstance(first.value, (int, float)) and isinstance(second.value, (int, float)) and second.value:
            ratio = f"{first.value / second.value:.4f}"
        yield [first.label, shown(first), shown(second), *[ratio] * ratios]


def median_row(rows: Sequence[Row]) -> Row:
    """A figure of several runs: the median of those that are known."""
    known = [row.value for row in rows if isinstance(row.value, (int, float))]
    return replace(rows[0], value=median(known) if known else None)


def side_lines(name: str, side: Side) -> Iterator[str]:
    """The kinds of run on a side, and what was left out."""
    for group in side.groups:
        yield cells.printable(f"{name}: {runs_text(group)}: {kind_text(group.kind)}", MAX_LINE)
    if side.left_out:
        left_out = ", ".join(f"{count} {why}" for why, count in side.left_out.items())
        yield f"{name}: left out: {left_out}"


def warning_lines(name: str, side: Side) -> Iterator[str]:
    """Warnings that a side mixes kinds of run, or that a run was disturbed."""
    if side.mixes:
        yield cells.printable(f"warning: {name} mixes {mixture(side)}: its medians are of no single kind", MAX_LINE)
    yield from disturbed_lines(name, side.results)


def runs_text(group: Group) -> str:
    """`4 runs, spread 2.7 %`."""
    relative = None if group.spread is None else group.spread.relative
    spread = "" if relative is None else f", spread {cells.percent(relative)}"
    return f"{cells.counted(len(group.results), 'run')}{spread}"


def kind_text(kind: Kind) -> str:
    """`default by zero, TP1 x PP1 x DP2, on 1x2 AMD EPYC (1/2 each), steps=50`."""
    return (
        f"{kind.case} by {kind.framework}, {cells.layout(kind.layout)}, on {kind_devices(kind)}, {kind_changes(kind)}"
    )


def kind_devices(kind: Kind) -> str:
    """`1x2 AMD EPYC (1/2 each)`."""
    return cells.devices(kind.layout.nodes, kind.layout.devices_per_node, kind.device, kind.device_share)


def kind_changes(kind: Kind) -> str:
    """What was changed from the case."""
    return cells.settings(kind.contract + kind.tuning) or "nothing changed"


def mixture(side: Side) -> str:
    """`2 kinds of run, which differ in framework (pytorch, zero)`."""
    kinds = [group.kind for group in side.groups]
    values = {name: "; ".join(dict.fromkeys(_SHOWN[name](kind) for kind in kinds)) for name in side.mixes}
    parts = [f"{name.replace('_', ' ')} ({text})" for name, text in values.items()]
    return f"{len(kinds)} kinds of run, which differ in {', '.join(parts)}"


_SHOWN: dict[str, Callable[[Kind], str]] = {
    "case": lambda kind: kind.case,
    "contract": lambda kind: cells.settings(kind.contract) or "/",
    "device": lambda kind: kind.device,
    "device_share": lambda kind: cells.part(kind.device_share),
    "framework": lambda kind: kind.framework,
    "layout": lambda kind: f"{kind.layout.nodes}x{kind.layout.devices_per_node} {cells.layout(kind.layout)}",
    "tuning": lambda kind: cells.settings(kind.tuning) or "/",
}
"""Text of a field of a kind, by the name of the field."""


def disturbed_lines(name: str, results: Sequence[Result]) -> Iterator[str]:
    """Warnings about runs with very uneven steps, and about runs that shared the host or its devices."""
    of_all = f"of {cells.counted(len(results), 'run')}"
    if with_uneven_steps := [result for result in results if uneven(result)]:
        runs = ", ".join(f"{result.run_id} ({steps_text(result)})" for result in with_uneven_steps)
        yield cells.printable(
            f"warning: {name}: {len(with_uneven_steps)} {of_all} disturbed, with very uneven steps: {runs}", MAX_LINE
        )
    if sharing := [result for result in results if shared(result)]:
        largest = max(result.metrics.other_cpu_share or 0.0 for result in sharing)
        cores = f"up to {100 * largest:.0f} % of the cores" if largest > OTHER_CPU_SHARE else "on its devices"
        yield cells.printable(
            f"warning: {name}: {len(sharing)} {of_all} disturbed by other processes ({cores}): "
            f"their throughput may be too low: {', '.join(result.run_id for result in sharing)}",
            MAX_LINE,
        )


def steps_text(result: Result) -> str:
    """`median step 0.0190 s, mean 0.0900 s, 5 % to 95 %: 0.0180 to 0.4000 s`."""
    figures = figure_rows(result)
    median, mean, p5, p95 = (shown(figures[f"step_seconds_{name}"]) for name in ("median", "mean", "p5", "p95"))
    return f"median step {median} s, mean {mean} s, 5 % to 95 %: {p5} to {p95} s"


def throughput_text(comparison: Comparison, of: str = "token/p/s") -> str:
    """One line on a throughput: whether it differs, by how much, and how sure that is."""
    interval = "" if comparison.low is None else f", 95 % interval {comparison.low:.4f} to {comparison.high:.4f}"
    return f"{of}: {comparison.verdict}: ratio {comparison.ratio:.4f}{interval}; {comparison.why}"


def verdict_lines(sides: Mapping[str, Side], comparison: Sides) -> Iterator[str]:
    """What follows from the throughputs of the sides, or why nothing does."""
    if comparison.contract_differences:
        different = ", ".join(difference_text(name, sides) for name in comparison.contract_differences)
        yield cells.printable(f"the contracts differ in {different}: these figures measure different things", MAX_LINE)
    elif comparison.device_throughput is None:
        yield throughput_text(comparison.throughput)
    else:
        yield throughput_text(comparison.throughput, "token/p/s of a rank")
        yield throughput_text(comparison.device_throughput, OF_A_DEVICE)
    if comparison.device_throughput is not None:
        shares = ", ".join(f"{name} {' and '.join(map(cells.part, side.shares))}" for name, side in sides.items())
        yield f"the ranks had different parts of a device ({shares}): token/p/s is that of a rank, not of a device"


def difference_text(part: str, sides: Mapping[str, Side]) -> str:
    """`seed (A: 0, B: 9)`; for nested settings, such as the optimiser, only the parts that differ."""
    contracts = {name: [contract_parts(result) for result in side.results] for name, side in sides.items()}
    paths = sorted({path for runs in contracts.values() for parts in runs for path in parts})
    texts = []
    for path in paths:
        if path != part and not path.startswith(f"{part}."):
            continue
        values = {
            name: list(dict.fromkeys(parts.get(path, cells.UNKNOWN) for parts in runs))
            for name, runs in contracts.items()
        }
        if len({value for each in values.values() for value in each}) > 1:
            texts.append(f"{path} ({', '.join(f'{name}: {cells.joined(each)}' for name, each in values.items())})")
            if path == part:  # another model: its layers and widths differ too
                break
    return ", ".join(texts) or part


def baseline_lines(comparisons: Sequence[BaselineComparison]) -> Iterator[str]:
    """For each kind of runs the figure it is compared with, or why there is none; equal reasons on one line."""
    by_reason: dict[str, list[str]] = {}
    for comparison in comparisons:
        kind = comparison.group.kind
        share = "" if comparison.share is None else f"{comparison.share:.4f} of "
        by_reason.setdefault(f"{share}{comparison.why}", []).append(f"{kind.case} on {kind_devices(kind)}")
    for why, kinds in by_reason.items():
        names = list(dict.fromkeys(kinds))
        more = f" and {len(names) - 2} more" if len(names) > 3 else ""
        yield cells.printable(f"{'; '.join(names[:2] if more else names)}{more}: {why}", MAX_LINE)
    for kind_name in dict.fromkeys(one.kind for one in comparisons if one.share is not None):
        yield (f"a {kind_name} row is one figure without its spread: whether a difference is significant is unknown")
