"""Claims of a result about memory, nodes, waits and time against each other, and of a plan about its machines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from llmperf.types import Result, Text, Violation
from llmperf.validation import differs, figure, rule

if TYPE_CHECKING:
    from llmperf.types import Plan


@rule("LP401", "error", "No device holds more memory than it has")
def used_within_total(result: Result) -> Iterator[Violation]:
    used, total = result.metrics.device_memory_used_bytes, result.metrics.device_memory_total_bytes
    if used is not None and total is not None and used > total:
        path = "/metrics/device_memory_used_bytes"
        yield path, Text("expected at most {} (device_memory_total_bytes), found {}", total, used)


@rule("LP402", "error", "No rank holds more memory than its device has")
def rank_within_device(result: Result) -> Iterator[Violation]:
    total = result.hardware.device_memory_bytes
    for index, rank in enumerate(result.metrics.rank_memory):
        for name in ("peak_bytes", "reserved_bytes"):
            held = getattr(rank, name)
            if total is not None and held is not None and held > total:
                path = f"/metrics/rank_memory/{index}/{name}"
                yield path, Text("expected at most {} (device_memory_bytes), found {}", total, held)


@rule("LP403", "error", "Ranks and stages of the memory figures are those of the layout")
def ranks_of_the_layout(result: Result) -> Iterator[Violation]:
    layout, seen = result.parallelism, set()
    for index, memory in enumerate(result.metrics.rank_memory):
        path = f"/metrics/rank_memory/{index}"
        if memory.rank >= layout.world_size or memory.rank in seen:
            expected = Text("each rank from 0 to {} once", layout.world_size - 1)
            yield f"{path}/rank", Text("expected {}, found {}", expected, memory.rank)
        if memory.pipeline_stage >= layout.pipeline_parallel:
            found, stages = memory.pipeline_stage, layout.pipeline_parallel
            yield f"{path}/pipeline_stage", Text("expected less than pipeline parallel {}, found {}", stages, found)
        seen.add(memory.rank)


@rule("LP404", "error", "Utilisation is at most 100 %")
def utilisation_percent(result: Result) -> Iterator[Violation]:
    found = result.metrics.utilisation_percent
    if found is not None and found > 100:
        yield "/metrics/utilisation_percent", Text("expected at most 100, found {}", figure(found))


@rule("LP220", "error", "The nodes are those of the layout, each with its ranks")
def nodes_of_the_layout(result: Result) -> Iterator[Violation]:
    if not result.nodes:
        return
    hardware = result.hardware
    if len(result.nodes) != hardware.nodes:
        yield "/nodes", Text("expected {} nodes (hardware.nodes), found {}", hardware.nodes, len(result.nodes))
        return
    each = hardware.devices_per_node
    for index, node in enumerate(result.nodes):
        expected = (index, index * each, (index + 1) * each - 1)
        if (node.node_rank, node.first_rank, node.last_rank) != expected:
            text = Text("expected node {} with ranks {} to {}", index, expected[1], expected[2])
            message = Text("{}, found node {} with {} to {}", text, node.node_rank, node.first_rank, node.last_rank)
            yield f"/nodes/{index}", message


@rule("LP221", "error", "Waits and stragglers fit the run")
def waits_fit(result: Result) -> Iterator[Violation]:
    waiting, window = result.waiting, result.metrics.window_seconds
    if waiting is None:
        return
    least, share, most = waiting.least_share, waiting.share, waiting.most_share
    if not least * (1 - 1e-9) <= share <= most * (1 + 1e-9) <= 1 + 2e-9:
        found = f"{figure(least)}, {figure(share)}, {figure(most)}"
        yield "/waiting/share", Text("expected least_share <= share <= most_share <= 1, found {}", found)
    if window is not None and waiting.cost_seconds > window:
        expected = Text("at most {} (metrics.window_seconds)", figure(window))
        yield "/waiting/cost_seconds", Text("expected {}, found {}", expected, figure(waiting.cost_seconds))
    each = result.hardware.devices_per_node
    ranks = result.hardware.nodes * each
    for index, straggler in enumerate(waiting.stragglers):
        node = straggler.rank // each
        if straggler.rank >= ranks:
            expected = Text("a rank below {}", ranks)
            yield f"/waiting/stragglers/{index}/rank", Text("expected {}, found {}", expected, straggler.rank)
        elif straggler.node_rank != node:
            where = f"/waiting/stragglers/{index}/node_rank"
            yield where, Text("expected {}, where rank {} runs, found {}", node, straggler.rank, straggler.node_rank)


@rule("LP223", "warning", "Nodes are different machines", "plan")
def different_machines(plan: Plan) -> Iterator[Violation]:
    first: dict[str, int] = {}
    for place, node in enumerate(plan.nodes):
        if (known := first.setdefault(node.address, place)) != place:
            message = Text("expected an address other than that of node {}, found {}", known, node.address)
            yield f"/nodes/{place}/address", message
            return


@rule("LP207", "error", "A run ends after it begins, and its window is within")
def clock(result: Result) -> Iterator[Violation]:
    created, finished = _time(result.created), _time(result.finished)
    for path, text, time in (("/created", result.created, created), ("/finished", result.finished, finished)):
        if time is None:
            yield path, Text("expected a UTC time such as 2026-01-15T09:30:00+00:00, found {!r}", text[:40])
    if created is None or finished is None:
        return
    elapsed, window = (finished - created).total_seconds(), result.metrics.window_seconds
    if elapsed < 0:
        yield "/finished", Text("expected no earlier than created {}, found {}", result.created, result.finished)
    elif window is not None and window > elapsed + 1:
        message = Text("expected at most {} (from created to finished), found {}", figure(elapsed), figure(window))
        yield "/metrics/window_seconds", message


def _time(text: str) -> datetime | None:
    try:
        # Python 3.10 does not read the Z of UTC
        time = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else None


@rule("LP106", "error", "The hardware has the ranks of the layout")
def machine(result: Result) -> Iterator[Violation]:
    hardware, layout = result.hardware, result.parallelism
    yield from differs("/hardware/nodes", hardware.nodes, layout.nodes, Text("as in the layout"))
    found, expected = hardware.devices_per_node, layout.devices_per_node
    yield from differs("/hardware/devices_per_node", found, expected, Text("as in the layout"))


@rule("LP205", "error", "Step statistics are in order")
def statistics_in_order(result: Result) -> Iterator[Violation]:
    if (steps := result.metrics.step_seconds) is None:
        return
    if not steps.p5 <= steps.median <= steps.p95:
        found = f"{figure(steps.p5)}, {figure(steps.median)}, {figure(steps.p95)}"
        yield "/metrics/step_seconds", Text("expected p5 <= median <= p95, found {}", found)
    low, high = steps.mean_low, steps.mean_high
    if low is not None and high is not None and not low <= steps.mean <= high:
        found = f"{figure(low)}, {figure(steps.mean)}, {figure(high)}"
        yield "/metrics/step_seconds/mean", Text("expected mean_low <= mean <= mean_high, found {}", found)
