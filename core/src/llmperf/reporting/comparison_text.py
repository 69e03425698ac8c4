"""What stands on each side of a comparison, and what to mind about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from llmperf.accounting.evenness import OTHER_CPU_SHARE
from llmperf.reporting import cells
from llmperf.results.comparison_side import Side
from llmperf.results.groups import Group, Kind
from llmperf.results.spread import shared, uneven
from llmperf.types import Result

MAX_LINE = 1000
"""Characters."""


def side_lines(name: str, side: Side) -> Iterator[str]:
    """Its kinds of run, and what was left out."""
    for group in side.groups:
        yield cells.printable(f"{name}: {runs_text(group)}: {kind_text(group.kind)}", MAX_LINE)
    if side.left_out:
        left_out = ", ".join(f"{count} {why}" for why, count in side.left_out.items())
        yield f"{name}: left out: {left_out}"


def warning_lines(name: str, side: Side) -> Iterator[str]:
    """That it mixes kinds of run, that a run was disturbed; nothing where all is well."""
    if side.mixes:
        yield cells.printable(f"warning: {name} mixes {mixture(side)}: its medians are of no one kind", MAX_LINE)
    yield from disturbed_lines(name, side.results)


def runs_text(group: Group) -> str:
    """`4 runs, spread 2.7 %`."""
    found = group.spread
    spread = "" if found is None or found.relative is None else f", spread {cells.percent(found.relative)}"
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
    parts = [f"{name.replace('_', ' ')} ({_values(name, kinds)})" for name in side.mixes]
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
"""How the field of a kind is shown, by its name."""


def _values(name: str, kinds: Sequence[Kind]) -> str:
    return "; ".join(dict.fromkeys(_SHOWN[name](kind) for kind in kinds))


def disturbed_lines(name: str, results: Sequence[Result]) -> Iterator[str]:
    """Warnings about runs with very uneven steps, and about runs that shared the host or its devices."""
    of_all = f"of {cells.counted(len(results), 'run')}"
    if wild := [one for one in results if uneven(one)]:
        who = ", ".join(f"{one.run_id} ({steps_text(one)})" for one in wild)
        yield cells.printable(
            f"warning: {name}: {len(wild)} {of_all} disturbed, with very uneven steps: {who}", MAX_LINE
        )
    if beside := [one for one in results if shared(one)]:
        shares = [one.metrics.other_cpu_share or 0.0 for one in beside]
        cores = f"up to {max(shares):.0%} of the cores" if max(shares) > OTHER_CPU_SHARE else "on its devices"
        yield cells.printable(
            f"warning: {name}: {len(beside)} {of_all} disturbed by other processes ({cores}): "
            f"their throughput may be too low: {', '.join(one.run_id for one in beside)}",
            MAX_LINE,
        )


def steps_text(result: Result) -> str:
    """`median step 0.019 s, mean 0.09 s, 5 % to 95 %: 0.018 to 0.4 s`."""
    steps = result.metrics.step_seconds
    assert steps is not None
    median, mean, low, high = (f"{one:.3g}" for one in (steps.median, steps.mean, steps.p5, steps.p95))
    return f"median step {median} s, mean {mean} s, 5 % to 95 %: {low} to {high} s"


def share_line(sides: Mapping[str, Side]) -> str:
    """That the ranks of the sides had different parts of a device."""
    had = ", ".join(f"{name} {' and '.join(map(cells.part, side.shares))}" for name, side in sides.items())
    return f"the ranks had different parts of a device ({had}): token/p/s is that of a rank, not of a device"
