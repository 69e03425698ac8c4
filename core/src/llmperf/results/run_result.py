"""Plan + records -> Result: a pure function of a run folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from llmperf_schemas import RESULT_SCHEMA

from llmperf.accounting.flops import utilisation
from llmperf.accounting.precisions import precision_recipe, weighted_peaks
from llmperf.errors import UserError
from llmperf.results.failure import outcome
from llmperf.results.node_figures import node_figures
from llmperf.results.notes import notes
from llmperf.results.sections import LEFT_OUT, computed_sections, known_sections
from llmperf.results.statistics import step_statistics
from llmperf.runfolder.contents import RunRecords, read_run
from llmperf.types.rates import MeasuredPeak
from llmperf.types.result import Metrics, RankMemory, Result

T = TypeVar("T")


def build_result(run_dir: Path, secrets: tuple[str, ...] = ()) -> Result:
    """Compute the result of a run folder in any state, without findings and without `secrets` in its logs."""
    records = read_run(run_dir, secrets)
    return result_of(records)


def result_of(records: RunRecords) -> Result:
    """The same, of a run folder that was read."""
    plan, ending = records.plan, records.ending
    before, after = plan.peak, ending.peak_again if ending else None
    if before is not None and after is not None and before.dtype == after.dtype:
        # whatever else runs on a host lowers what is measured, so the larger figure is nearer to the peak
        plan = replace(plan, peak=max(before, after, key=lambda peak: peak.flops_per_second))
        records = replace(records, plan=plan)
    spec = plan.spec
    if plan.purpose != "run":
        raise UserError(
            f"{records.run}: not a measured run, so it has no result: its plan has purpose {plan.purpose!r}"
        )
    status, failure = outcome(records)
    nodes = node_figures(records)
    kernels = of_first_rank(rank.kernels for rank in records.ranks)
    precisions = of_first_rank(rank.precisions for rank in records.ranks)
    figures = metrics(records, nodes.metrics)
    recipe, weighted = precision_recipe(spec.contract.precision), weighted_peaks(plan)
    measured: MeasuredPeak | None = None  # of one rank's share of a device, in the run's precision
    rates, dtype = plan.rates, recipe.products
    if rates is not None and rates.basis == "measured" and dtype in rates.matmul_flops_per_second:
        measured = MeasuredPeak(
            flops_per_second=rates.matmul_flops_per_second[dtype] * plan.device_share,
            dtype=dtype,
            source=rates.source,
            date=rates.date,
            conditions=rates.conditions,
        )
    result = Result(
        schema=RESULT_SCHEMA,
        run_id=plan.run_id,
        created=plan.created,
        finished=ending.at if ending else plan.created,
        provenance="measured",
        status=status,
        failure=failure,
        case=spec.case,
        title=spec.title,
        variant=spec.variant,
        fix_hp=spec.changes,
        challenge=spec.challenge,
        model=spec.model,
        parameters=plan.flops.parameters,
        contract=spec.contract,
        data_fingerprint=plan.data_fingerprint,
        tuning=spec.tuning,
        framework=spec.framework,
        kernels=dict(sorted(kernels.items())),
        precisions=dict(sorted(precisions.items())),
        emulated=spec.tuning.emulate_precision,
        hardware=nodes.hardware,
        software=nodes.software,
        parallelism=plan.layout,
        batch=plan.batch,
        metrics=figures,
        mfu=utilisation(
            plan.flops,
            figures.tokens_per_second_per_device,
            plan.peak,
            plan.device_share,
            None if measured is None else measured.flops_per_second,
            weighted,
        ),
        peak_problem=plan.peak_problem,
        measured_peak=measured,
        peak_again=after,
        nodes=nodes.nodes,
        conditions=nodes.conditions,
        waiting=nodes.waiting,
        expert_load=records.experts.loads(),
        loss_curve=records.steps.curve.points(),
        loss_curve_every=records.steps.curve.every,
        plugins=plan.plugins,
        findings=(),
        notes=(*notes(records, recipe), *nodes.notes),
        files=records.files,
    )
    sections, faults = computed_sections(plan, result, records.run)
    left_out = (f"{LEFT_OUT}{fault}" for fault in (*known_sections().faults, *faults.values()))
    return replace(result, sections=sections, notes=(*result.notes, *left_out))


def metrics(records: RunRecords, of_nodes: Mapping[str, Any]) -> Metrics:
    """All figures of a run. Without a complete window there is no throughput; the other figures are kept."""
    from llmperf.tokens import known_entropy

    steps, layout, script = records.steps, records.plan.layout, records.plan.worker.script
    world, window = layout.world_size, records.window_seconds
    tokens = sum(rank.measured_tokens for rank in records.ranks) if window else steps.measured_tokens
    contract_data = script is None or any(rank.data_fingerprint for rank in records.ranks)  # which script ranks record
    curve = steps.curve.points()
    joules: float | None = of_nodes["energy_joules"]
    return Metrics(
        tokens_per_second_per_device=tokens / window / world if window else None,
        tokens_per_second=tokens / window if window else None,
        measured_steps=len(steps.slowest_seconds),
        measured_tokens=tokens,
        skipped_steps=steps.skipped,
        window_seconds=window,
        first_loss=curve[0].loss if curve else None,
        final_loss=curve[-1].loss if curve else None,
        known_entropy=known_entropy(records.plan.spec.contract.dataset) if contract_data else None,
        rank_memory=tuple(
            RankMemory(
                rank=rank.rank,
                pipeline_stage=layout.coordinate(rank.rank, "pipeline"),
                peak_bytes=rank.peak_memory_bytes,
                reserved_bytes=rank.peak_reserved_bytes,
            )
            for rank in records.ranks
        ),
        joules_per_token=joules / tokens if joules is not None and tokens else None,
        tokens_per_joule=tokens / joules if joules else None,
        **of_nodes,
        compile_seconds=max((rank.compile_seconds for rank in records.ranks if rank.compile_seconds), default=None),
        evaluation=of_first_rank(rank.evaluation for rank in records.ranks),
        step_seconds=step_statistics(steps.slowest_seconds),
    )


def of_first_rank(values_of_ranks: Iterable[Mapping[str, T]]) -> dict[str, T]:
    """Values of ranks by name, each from the first rank that has it: pipeline stages have different operations."""
    named: dict[str, T] = {}
    for values in values_of_ranks:
        named = {**values, **named}
    return named
