"""Figures of a run from its records: throughput, step times, losses, memory, energy."""

from __future__ import annotations

from llmperf.results import device_readings
from llmperf.results.statistics import step_statistics
from llmperf.runfolder.contents import RunRecords
from llmperf.types.result import Metrics, RankMemory


def metrics(records: RunRecords) -> Metrics:
    """All figures of a run. Without a complete window there is no throughput; the other figures are kept."""
    from llmperf.tokens.data_sets import known_entropy

    steps, window = records.steps, window_seconds(records)
    tokens = sum(rank.measured_tokens for rank in records.ranks) if window else steps.measured_tokens
    world = records.plan.layout.world_size
    curve = steps.curve.points()
    drawn = device_readings.energy(records, window)
    return Metrics(
        tokens_per_second_per_device=tokens / window / world if window else None,
        tokens_per_second=tokens / window if window else None,
        measured_steps=len(steps.slowest_seconds),
        measured_tokens=tokens,
        skipped_steps=steps.skipped,
        window_seconds=window,
        step_seconds=step_statistics(steps.slowest_seconds),
        first_loss=curve[0].loss if curve else None,
        final_loss=curve[-1].loss if curve else None,
        known_entropy=known_entropy(records.plan.spec.contract.dataset) if reads_contract_data(records) else None,
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
        compile_seconds=max((rank.compile_seconds for rank in records.ranks if rank.compile_seconds), default=None),
        evaluation=evaluation(records),
    )


def reads_contract_data(records: RunRecords) -> bool:
    """Check whether the ranks train on the contract's data; unknown of a script, unless a rank records what it read."""
    return records.plan.worker.script is None or any(rank.data_fingerprint for rank in records.ranks)


def window_seconds(records: RunRecords) -> float | None:
    """Wall time of the slowest rank; None unless every rank has closed its window."""
    if len({rank.rank for rank in records.ranks}) != records.plan.layout.world_size:
        return None
    return max(rank.window_seconds for rank in records.ranks) or None


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
