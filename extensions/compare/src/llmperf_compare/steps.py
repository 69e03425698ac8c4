"""The figures of each step of a run, from its records."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from llmperf import load_plan
from llmperf.reporting import folder_of
from llmperf.types import Result, Sheet
from llmperf.validation import by_step, mean_loss, merged, record_files, samples_of


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
    layout = load_plan(run).layout
    # moments of the readings by the node's CLOCK_MONOTONIC, and the most memory that a device used, by node
    moments, most = defaultdict[int, list[float]](list), defaultdict[int, list[int]](list)
    for sample in samples_of(run, layout.nodes):
        used = [device.memory_used_bytes for device in sample.devices if device.memory_used_bytes is not None]
        if used:
            moments[sample.node_rank].append(sample.monotonic)
            most[sample.node_rank].append(max(used))
    ranks_per_node = max(1, layout.world_size // max(1, layout.nodes))
    for part in merged(record_files(run), lambda _: None):
        for step, ranks in by_step(part).items():
            if len(ranks) != layout.world_size:
                continue
            ends: dict[int, float] = defaultdict(float)
            for rank in ranks:
                ends[rank.rank // ranks_per_node] = max(ends[rank.rank // ranks_per_node], rank.monotonic)
            places = {node: bisect_right(moments[node], end) for node, end in ends.items()}
            yield StepFigures(
                step=step,
                measured=ranks[0].measured,
                seconds=max(rank.step_seconds for rank in ranks),
                loss=mean_loss(ranks),
                tokens=sum(rank.tokens for rank in ranks),
                memory_used_bytes=max((most[node][place - 1] for node, place in places.items() if place), default=None),
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


def recorded_steps(sheet: Sheet) -> tuple[StepFigures, ...]:
    """The steps of a run, from its records or else its loss curve; an archive is unpacked for each call."""
    result = sheet.source.document
    if not isinstance(result, Result):
        return ()
    with folder_of(sheet.source) as run:
        recorded = (run / "plan.json").is_file() and record_files(run)
        return tuple(recorded_figures(run) if recorded else curve_figures(result))
