"""The nodes of a run, waits for communication, and stragglers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmperf.results.disturbances import all_disturbed, costly_stragglers
from llmperf.types import Result, Text, Violation
from llmperf.types.hosts import Hardware
from llmperf.validation.violations import figure, rule

if TYPE_CHECKING:
    from llmperf.types import Plan


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
    hardware = result.hardware
    for index, straggler in enumerate(waiting.stragglers):
        node = straggler.rank // hardware.devices_per_node
        if straggler.rank >= _ranks(hardware):
            expected = Text("a rank below {}", _ranks(hardware))
            yield f"/waiting/stragglers/{index}/rank", Text("expected {}, found {}", expected, straggler.rank)
        elif straggler.node_rank != node:
            where = f"/waiting/stragglers/{index}/node_rank"
            yield where, Text("expected {}, where rank {} runs, found {}", node, straggler.rank, straggler.node_rank)


def _ranks(hardware: Hardware) -> int:
    return hardware.nodes * hardware.devices_per_node


@rule("LP223", "warning", "Nodes are different machines", "plan")
def different_machines(plan: Plan) -> Iterator[Violation]:
    first: dict[str, int] = {}
    for place, node in enumerate(plan.nodes):
        if (known := first.setdefault(node.address, place)) != place:
            message = Text("expected an address other than that of node {}, found {}", known, node.address)
            yield f"/nodes/{place}/address", message
            return


@rule("LP222", "note", "No rank made the others wait for long")
def no_stragglers(result: Result) -> Iterator[Violation]:
    stragglers = costly_stragglers(result)
    if stragglers is not None and not all_disturbed(result):
        who, cost = stragglers
        message = Text("expected none, found {}: the others waited, which may have cost {}", who, cost)
        yield "/waiting/stragglers", message
