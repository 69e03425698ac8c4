"""Nodes and their devices: memory, utilisation, throttling, other programs, waits, stragglers; and divergence."""

from __future__ import annotations

import math
from collections.abc import Iterator

from llmperf.results.disturbances import all_disturbed, clock_fall, costly_stragglers, lacks_memory, other_programs
from llmperf.types import Model, Result, Text, Violation
from llmperf.types.hosts import FAULTS
from llmperf.types.result import CLOCK_FALL, OTHER_CPU_SHARE
from llmperf.validation.reading import shown
from llmperf.validation.violations import figure, rule


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


@rule("LP405", "warning", "No device was slowed by heat or by its power supply")
def slowed(result: Result) -> Iterator[Violation]:
    for reason, share in _shares(result, faults=True):
        message = Text("expected none, found {} in {} % of the readings", reason, figure(100 * share))
        yield "/metrics/throttling", message


@rule("LP406", "note", "No device was held back by its power limit, a clock setting or the like")
def held_back(result: Result) -> Iterator[Violation]:
    for reason, share in _shares(result, faults=False):
        yield "/metrics/throttling", Text("{} held a device back in {} % of the readings", reason, figure(100 * share))


@rule("LP409", "warning", "Nothing else computed on the host and its devices")
def undisturbed(result: Result) -> Iterator[Violation]:
    share, others = result.metrics.other_cpu_share, result.metrics.other_processes
    if share is not None and share > OTHER_CPU_SHARE:
        message = Text(
            "other processes used {:.0f} % of the host's cores during the run{}, expected at most {:.0f} %",
            *(100 * share, other_programs(result), 100 * OTHER_CPU_SHARE),
        )
        if all_disturbed(result) and (stragglers := costly_stragglers(result)) is not None:
            message = Text("{}; the others waited for {} there, which may have cost {}", message, *stragglers)
        yield "/metrics/other_cpu_share", Text("{}; run again when the host is idle: --wait-until-idle", message)
    if others:
        message = Text("{} other processes used the devices during the run, expected none", others)
        yield "/metrics/other_processes", message


@rule("LP410", "warning", "The hosts had memory enough")
def memory_enough(result: Result) -> Iterator[Violation]:
    for index, node in enumerate(result.conditions):
        if (lack := lacks_memory(node)) is not None:
            yield f"/conditions/{index}", Text("{} during the run, expected at most {}", lack[0], lack[1])


@rule("LP414", "note", "The clocks of the devices do not fall")
def steady_clocks(result: Result) -> Iterator[Violation]:
    for index, node in enumerate(result.conditions):
        if (fall := clock_fall(node)) is not None:
            first, last = node.clock_hertz[0] or 0.0, node.clock_hertz[-1] or 0.0
            message = Text(
                "the clocks fell by {:.0f} % ({:,.0f} MHz in the first tenth of the measured window, {:,.0f} MHz in the"
                " last), expected at most {:.0f} %",
                *(100 * fall, first / 1e6, last / 1e6, 100 * CLOCK_FALL),
            )
            yield f"/conditions/{index}/clock_hertz", message


def _shares(result: Result, faults: bool) -> Iterator[tuple[str, float]]:
    for reason, share in (result.metrics.throttling or {}).items():
        if share and (reason in FAULTS) == faults:
            yield shown(reason), share


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


@rule("LP222", "note", "No rank made the others wait for long")
def no_stragglers(result: Result) -> Iterator[Violation]:
    stragglers = costly_stragglers(result)
    if stragglers is not None and not all_disturbed(result):
        who, cost = stragglers
        message = Text("expected none, found {}: the others waited, which may have cost {}", who, cost)
        yield "/waiting/stragglers", message


LOSS_OVER_UNTRAINED = 3.0
"""Nats above an untrained model's loss; a rate of learning that is too high may cost a few for a while."""


def untrained_loss(model: Model) -> float:
    """Loss of fresh weights, in nats per token: guessing among all tokens alike gets ln(vocabulary).

    Half the variance of the output is added: hidden size x std^2, or 1 if the head's rows have unit length.
    """
    variance = 1.0 if model.normalized_head else model.hidden_size * model.initializer_std * model.initializer_std
    return math.log(model.vocab_size) + variance / 2


@rule("LP506", "error", "A complete run did not diverge")
def not_diverged(result: Result) -> Iterator[Violation]:
    found, most = result.metrics.final_loss, untrained_loss(result.model) + LOSS_OVER_UNTRAINED
    if result.status == "complete" and found is not None and found > most:
        message = Text("expected at most {}, found {}: training diverged", _limit(most), figure(found))
        yield "/metrics/final_loss", message


@rule("LP507", "warning", "No loss is far above that of an untrained model")
def no_wild_loss(result: Result) -> Iterator[Violation]:
    most = untrained_loss(result.model) + LOSS_OVER_UNTRAINED
    for index, point in enumerate(result.loss_curve):
        if point.loss is not None and point.loss > most:
            found = Text("found {} at step {}", figure(point.loss), point.step)
            yield f"/loss_curve/{index}/loss", Text("expected at most {}, {}", _limit(most), found)
            return


def _limit(most: float) -> str:
    return Text("{} ({:g} nats above an untrained model)", figure(most), LOSS_OVER_UNTRAINED)
