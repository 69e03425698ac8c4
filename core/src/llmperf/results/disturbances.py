"""Disturbances of a run: what else its hosts and devices did, and what that did to its steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llmperf.runfolder.readings import busy_parts, programs_text
from llmperf.types.hosts import FAULTS, NodeConditions
from llmperf.types.result import (
    CLOCK_FALL,
    DRIFT,
    FEWEST_DRIFT_STEPS,
    MEMORY_PRESSURE,
    OTHER_CPU_SHARE,
    SWAPPED_BYTES,
    UNEVEN_MEAN,
    UNEVEN_QUANTILES,
    Result,
)
from llmperf.types.texts import Text

COSTLY_SHARE = 0.05
"""Share of the measured window that stragglers may cost without a note."""


def disturbed(result: Result) -> bool:
    """Check whether anything disturbed a run in its measured window."""
    return any(disturbances(result))


def mostly_disturbed(results: Iterable[Result]) -> bool:
    """Check whether half of the complete runs or more were disturbed: their figures rank below those of others."""
    marks = [disturbed(result) for result in results if result.status == "complete"]
    return 2 * sum(marks) >= len(marks) > 0


def uneven(result: Result) -> bool:
    """Check whether its steps differ so much that something must have slowed some of them down."""
    steps = result.metrics.step_seconds
    if steps is None:
        return False
    return steps.mean > UNEVEN_MEAN * steps.median or steps.p95 > UNEVEN_QUANTILES * steps.p5


def shared(result: Result) -> bool:
    """Check whether other processes used the host or its devices while it was measured, beyond what LP409 allows."""
    share, processes = result.metrics.other_cpu_share, result.metrics.other_processes
    return (share is not None and share > OTHER_CPU_SHARE) or bool(processes)


def costly_stragglers(result: Result) -> tuple[str, str] | None:
    """The ranks that made the others wait and the cost, in words; None if it was no more than COSTLY_SHARE."""
    waiting, window = result.waiting, result.metrics.window_seconds
    if waiting is None or not window or not waiting.stragglers or waiting.cost_seconds <= COSTLY_SHARE * window:
        return None
    slowest = waiting.stragglers[0]
    count = len(waiting.stragglers) + waiting.more_stragglers
    template = "rank {} on node {} and {} more" if count > 1 else "rank {} on node {}"
    who = Text(template, slowest.rank, slowest.node_rank, count - 1)
    return who, Text("{:.0f} % of the measured window", 100 * waiting.cost_seconds / window)


def all_disturbed(result: Result) -> bool:
    """Check whether other processes used too much of the cores of every node that has stragglers."""
    if result.waiting is None or result.waiting.more_stragglers:
        return False
    shares = {node.node_rank: node.other_cpu_share or 0.0 for node in result.conditions}
    overall = (result.metrics.other_cpu_share or 0.0) if result.hardware.nodes == 1 else 0.0
    nodes = {straggler.node_rank for straggler in result.waiting.stragglers}
    return all(max(shares.get(node, 0.0), overall) > OTHER_CPU_SHARE for node in nodes)


def drift(result: Result) -> float | None:
    """Share by which the steps became slower; below 0: faster. None if they did not, or nobody can say.

    The medians of the first and the last quarter differ by more than DRIFT, and their middle halves do not overlap.
    """
    steps = result.metrics.step_seconds
    if steps is None or len(steps.quarters) != 4 or result.metrics.measured_steps < FEWEST_DRIFT_STEPS:
        return None
    first, last = steps.quarters[0], steps.quarters[-1]
    apart = first.p75 < last.p25 or last.p75 < first.p25
    change = last.median / first.median - 1 if first.median else 0.0
    return change if apart and abs(change) > DRIFT else None


def clock_fall(node: NodeConditions) -> float | None:
    """Share by which the clocks of a node's devices fell from the first to the last tenth, if they did."""
    known = [clock for clock in node.clock_hertz if clock]
    if len(known) < max(2, len(node.clock_hertz)):
        return None
    fall = 1 - known[-1] / known[0]
    return fall if fall > CLOCK_FALL else None


def lacks_memory(node: NodeConditions) -> tuple[str, str] | None:
    """A sentence on a node whose host had too little memory in the measured window, and the bound; None if it had."""
    pressure, swapped = node.pressure.get("memory", 0.0), node.swapped_bytes or 0
    if pressure > MEMORY_PRESSURE:
        waited = Text("processes waited for memory {:.0f} % of the time", 100 * pressure)
        return waited, f"{100 * MEMORY_PRESSURE:.0f} %"
    if swapped > SWAPPED_BYTES:
        return Text("the host swapped {:,.0f} MiB", swapped / 2**20), f"{SWAPPED_BYTES / 2**20:.0f} MiB"
    return None


def disturbances(result: Result) -> Iterator[str]:
    """Words for each thing that disturbed a run in its measured window."""
    several = len(result.conditions) > 1
    if (share := result.metrics.other_cpu_share) is not None and share > OTHER_CPU_SHARE:
        yield Text("other processes used {:.0f} % of the cores{}", 100 * share, other_programs(result))
    if processes := result.metrics.other_processes:
        yield Text("other processes computed on the devices: {}", processes)
    if slowed := [reason for reason, of in (result.metrics.throttling or {}).items() if of and reason in FAULTS]:
        yield Text("a device was slowed by {}", ", ".join(slowed))
    for node in result.conditions:
        if (lack := lacks_memory(node)) is not None:
            yield Text("{} on node {}", lack[0], node.node_rank) if several else lack[0]
        if (fall := clock_fall(node)) is not None:
            where = Text(" on node {}", node.node_rank) if several else ""
            yield Text("the clocks fell by {:.0f} %{}", 100 * fall, where)
    if (change := drift(result)) is not None:
        yield drift_text(change)
    if uneven(result):
        yield Text("the steps are very uneven")


def before_start(node: NodeConditions) -> str | None:
    """The load of a node before the start, or `idle`; None if that was not read."""
    return None if node.before is None else Text.joined("; ", busy_parts(node.before)) or "idle"


def drift_text(change: float) -> str:
    """`the steps became 24 % slower`."""
    slower, faster = "the steps became {:.0f} % slower", "the steps became {:.0f} % faster"
    return Text(slower if change > 0 else faster, 100 * abs(change))


def other_programs(result: Result) -> str:
    """` (cc1plus 30 %)`: the programs of others on the node where these used most; empty if they are not known."""
    known = [node for node in result.conditions if node.other_cpu_share is not None]
    busiest = max(known, key=lambda node: node.other_cpu_share or 0.0, default=None)
    if busiest is None or not busiest.programs:
        return ""
    where = Text(" on node {}", busiest.node_rank) if len(result.conditions) > 1 else ""
    return Text("{}{}", programs_text(busiest.programs), where)
