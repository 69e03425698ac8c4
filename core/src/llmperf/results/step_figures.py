"""The figures of each step of a run, over all its ranks."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from llmperf.files import json_files
from llmperf.runfolder import filenames
from llmperf.runfolder.contents import by_step, samples_of
from llmperf.runfolder.loss_curve import mean_loss
from llmperf.runfolder.merging import merged
from llmperf.types.plan import Plan
from llmperf.types.records import StepRecord
from llmperf.types.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFigures:
    """One step that all ranks have finished. Unknown is None."""

    step: int
    """Number of the step, from 1, warm-up included."""
    measured: bool
    """False for a warm-up step."""
    seconds: float | None
    """Time of the slowest rank."""
    loss: float | None
    """Mean cross entropy per token in nats, over the tokens of all ranks that report it; None if not finite."""
    tokens: int | None
    """Tokens of all ranks."""
    memory_used_bytes: int | None
    """Memory in use on the fullest device, by the last reading before the end of the step."""


def recorded_figures(run: Path) -> Iterator[StepFigures]:
    """The steps in the records of a run folder; UserError if its plan or a record cannot be read."""
    plan = json_files.load(run / filenames.PLAN, Plan)
    world, nodes = plan.layout.world_size, plan.layout.nodes
    readings = _memory_readings(run, nodes)
    ranks_per_node = max(1, world // max(1, nodes))
    for part in merged(filenames.record_files(run), lambda _: None):
        for step, ranks in by_step(part).items():
            if len(ranks) == world:
                yield StepFigures(
                    step=step,
                    measured=ranks[0].measured,
                    seconds=max(rank.step_seconds for rank in ranks),
                    loss=mean_loss(ranks),
                    tokens=sum(rank.tokens for rank in ranks),
                    memory_used_bytes=_memory_used(ranks, readings, ranks_per_node),
                )


def curve_figures(result: Result) -> Iterator[StepFigures]:
    """The steps of a result's loss curve, for a result without records: only the loss is known."""
    for point in result.loss_curve:
        yield StepFigures(
            step=point.step,
            measured=point.step > result.contract.warmup_steps,
            seconds=None,
            loss=point.loss,
            tokens=None,
            memory_used_bytes=None,
        )


def _memory_readings(run: Path, nodes: int) -> dict[int, tuple[list[float], list[int]]]:
    """Moments of the readings by the node's CLOCK_MONOTONIC, and the most memory that a device used, by node."""
    readings: dict[int, tuple[list[float], list[int]]] = defaultdict(lambda: ([], []))
    for sample in samples_of(run, nodes):
        used = [device.memory_used_bytes for device in sample.devices if device.memory_used_bytes is not None]
        if used:
            moments, most = readings[sample.node_rank]
            moments.append(sample.monotonic)
            most.append(max(used))
    return dict(readings)


def _memory_used(
    ranks: list[StepRecord], readings: dict[int, tuple[list[float], list[int]]], ranks_per_node: int
) -> int | None:
    ends: dict[int, float] = {}
    for rank in ranks:
        node = rank.rank // ranks_per_node
        ends[node] = max(ends.get(node, 0.0), rank.monotonic)
    used = [
        most[place - 1]
        for node, end in ends.items()
        for moments, most in [readings.get(node, ([], []))]
        if (place := bisect_right(moments, end))
    ]
    return max(used, default=None)
