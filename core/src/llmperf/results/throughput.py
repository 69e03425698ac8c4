"""From records to figures: throughput, step times, losses, memory, energy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf.results import device_readings
from llmperf.results.statistics import finite_mean, step_statistics
from llmperf.runfolder.contents import RunRecords
from llmperf.types.result import LossPoint, Metrics, RankMemory

if TYPE_CHECKING:
    from llmperf.types.records import StepRecord


def metrics(records: RunRecords) -> Metrics:
    """All figures of a run. Without a complete window there is no throughput; the other figures are kept."""
    from llmperf.tokens.preflight import known_entropy

    window = window_seconds(records)
    tokens = sum(rank.measured_tokens for rank in records.ranks) if window else measured_tokens(records)
    world = records.plan.layout.world_size
    losses = [point.loss for point in loss_curve(records)]
    drawn = device_readings.energy(records, window)
    return Metrics(
        tokens_per_second_per_device=tokens / window / world if window else None,
        tokens_per_second=tokens / window if window else None,
        measured_steps=len(_measured(records)),
        measured_tokens=tokens,
        skipped_steps=skipped_steps(records),
        window_seconds=window,
        step_seconds=step_statistics([max(r.step_seconds for r in step) for step in _measured(records)]),
        first_loss=losses[0] if losses else None,
        final_loss=losses[-1] if losses else None,
        known_entropy=known_entropy(records.plan.spec.contract.dataset),
        rank_memory=rank_memory(records),
        device_memory_used_bytes=device_readings.most(records, "memory_used_bytes"),
        device_memory_total_bytes=device_readings.most(records, "memory_total_bytes"),
        utilisation_percent=device_readings.mean(records, "utilisation_percent"),
        power_watts=drawn.watts if drawn else device_readings.mean(records, "power_watts"),
        energy_joules=drawn.joules if drawn else None,
        energy_source=drawn.source if drawn else None,
        joules_per_token=drawn.joules / tokens if drawn and tokens else None,
        tokens_per_joule=tokens / drawn.joules if drawn and drawn.joules else None,
        throttling=device_readings.throttling(records),
        other_cpu_share=device_readings.other_cpu_share(records),
        other_cpu_share_before=device_readings.other_cpu_share_before(records),
        other_processes_before=device_readings.other_processes_before(records),
        other_processes=device_readings.other_processes(records),
        evaluation=evaluation(records),
    )


def window_seconds(records: RunRecords) -> float | None:
    """Wall time of the slowest rank; None unless every rank has closed its window."""
    if len({rank.rank for rank in records.ranks}) != records.plan.layout.world_size:
        return None
    return max(rank.window_seconds for rank in records.ranks) or None


def _measured(records: RunRecords) -> list[list[StepRecord]]:
    return [step for step in records.complete_steps.values() if step[0].measured]


def measured_tokens(records: RunRecords) -> int:
    """Tokens of the measured steps that every rank has finished, skipped ones not counted."""
    return sum(rank.tokens for step in _measured(records) if not _skipped(step) for rank in step)


def skipped_steps(records: RunRecords) -> int | None:
    """Measured steps without an update; None if no rank reports it for some step."""
    skipped = [_skipped(step) for step in _measured(records)]
    return None if None in skipped else sum(map(bool, skipped))


def _skipped(step: list[StepRecord]) -> bool | None:
    """Whether any rank skipped a step; None where none tells."""
    reported = [rank.skipped for rank in step if rank.skipped is not None]
    return any(reported) if reported else None


def loss_curve(records: RunRecords) -> tuple[LossPoint, ...]:
    """Mean over the tokens of the ranks that have a loss, for each step that all ranks have finished or that has no
    number."""
    points = []
    for step, ranks in records.by_step.items():
        nonfinite = next((rank.nonfinite for rank in ranks if rank.nonfinite is not None), None)
        if step in records.complete_steps or nonfinite is not None:
            points.append(_point(step, ranks, nonfinite))
    return tuple(points)


def _point(step: int, ranks: list[StepRecord], nonfinite: str | None) -> LossPoint:
    norms = [rank.grad_norm for rank in ranks if rank.grad_norm is not None]
    return LossPoint(
        step=step,
        loss=_mean_loss(ranks) if nonfinite is None else None,
        nonfinite=nonfinite,
        grad_norm=finite_mean(norms) if norms else None,
    )


def _mean_loss(ranks: list[StepRecord]) -> float | None:
    """Over tokens, as ranks have unequally many where sequences are padded; over ranks where none tells its tokens."""
    known = [(rank.loss, rank.tokens) for rank in ranks if rank.loss is not None]
    losses, tokens = [loss for loss, _ in known], [count for _, count in known]
    if len(set(tokens)) > 1 and min(tokens) >= 0:
        return finite_mean(losses, tokens)
    return finite_mean(losses) if losses else None


def rank_memory(records: RunRecords) -> tuple[RankMemory, ...]:
    """Peak memory of each rank that finished, with its pipeline stage."""
    layout = records.plan.layout
    return tuple(
        RankMemory(
            rank=rank.rank,
            pipeline_stage=layout.coordinate(rank.rank, "pipeline"),
            peak_bytes=rank.peak_memory_bytes,
            reserved_bytes=rank.peak_reserved_bytes,
        )
        for rank in records.ranks
    )


def evaluation(records: RunRecords) -> dict[str, float | None]:
    """Figures of the evaluation, each from the first rank that has it."""
    figures: dict[str, float | None] = {}
    for rank in records.ranks:
        figures = {**rank.evaluation, **figures}
    return figures
