"""Plan + records -> Result: a pure function of a run folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from llmperf_schemas import RESULT_SCHEMA

from llmperf.accounting.flops import utilisation
from llmperf.accounting.precisions import products_dtype, weighted_peaks
from llmperf.errors import UserError
from llmperf.results.disturbances import node_conditions
from llmperf.results.failure import outcome
from llmperf.results.node_figures import Facts, device_figures, node_facts, node_results, waiting
from llmperf.results.notes import notes
from llmperf.results.sections import computed_sections
from llmperf.results.statistics import step_statistics
from llmperf.runfolder.contents import RunRecords, read_run
from llmperf.types.hosts import Hardware, Software
from llmperf.types.rates import MeasuredPeak
from llmperf.types.result import Metrics, RankMemory, Result

T = TypeVar("T")


def build_result(run_dir: Path, secrets: tuple[str, ...] = ()) -> Result:
    """Compute the result of a run folder in any state, without findings and without `secrets` in its logs."""
    return result_of(replace(read_run(run_dir), secrets=secrets))


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
    figures = metrics(records)
    facts, common = node_facts(records)
    measured: MeasuredPeak | None = None  # of one rank's share of a device, in the run's precision
    rates, dtype = plan.rates, products_dtype(spec.contract)
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
        kernels=dict(sorted(of_first_rank(rank.kernels for rank in records.ranks).items())),
        precisions=dict(sorted(of_first_rank(rank.precisions for rank in records.ranks).items())),
        emulated=spec.tuning.emulate_precision,
        hardware=hardware(records, common),
        software=software(records, common),
        parallelism=plan.layout,
        batch=plan.batch,
        metrics=figures,
        mfu=utilisation(
            plan.flops,
            figures.tokens_per_second_per_device,
            plan.peak,
            plan.device_share,
            None if measured is None else measured.flops_per_second,
            weighted_peaks(plan),
        ),
        peak_problem=plan.peak_problem,
        measured_peak=measured,
        peak_again=after,
        nodes=node_results(records, facts, common),
        conditions=node_conditions(records),
        waiting=waiting(records),
        expert_load=records.experts.loads(),
        loss_curve=records.steps.curve.points(),
        loss_curve_every=records.steps.curve.every,
        plugins=plan.plugins,
        findings=(),
        notes=notes(records),
        files=records.files,
    )
    sections, left_out = computed_sections(plan, result, records.run)
    return replace(result, sections=sections, notes=(*result.notes, *left_out))


def hardware(records: RunRecords, common: Facts) -> Hardware:
    """The machine as probed, and what most hosts have."""
    plan = records.plan
    device = plan.probe.devices[0]
    driver = common.get("driver")
    memory, cpu = common.get("host_memory_bytes"), common.get("host_cpu")
    return Hardware(
        vendor=plan.vendor,
        device_model=device.model,
        nodes=plan.layout.nodes,
        devices_per_node=plan.layout.devices_per_node,
        device_share=plan.device_share,
        device_memory_bytes=device.memory_bytes,
        driver=plan.probe.driver if driver is None else str(driver),
        interconnect=plan.probe.interconnect,
        host_cpu=None if cpu is None else str(cpu),
        host_memory_bytes=None if memory is None else int(memory),
        simulated=plan.probe.simulated,
    )


def software(records: RunRecords, common: Facts) -> Software:
    """Software of the ranks of most nodes; a host's own Python where no rank got to say its own."""
    interpreter = records.plan.interpreter

    def named(prefix: str) -> dict[str, str]:
        return {name[len(prefix) :]: str(value) for name, value in common.items() if name.startswith(prefix)}

    return Software(
        os=str(common.get("os", "unknown")),
        kernel=str(common.get("kernel", "unknown")),
        python=str(common.get("python", "unknown")),
        worker_environment=None if interpreter is None else interpreter.environment or interpreter.path,
        packages=named("packages."),
        notable_packages=next((host.notable_packages for host in records.hosts.values()), ()),
        environment=named("environment."),
        startup_modules=named("startup_modules."),
    )


def metrics(records: RunRecords) -> Metrics:
    """All figures of a run. Without a complete window there is no throughput; the other figures are kept."""
    from llmperf.tokens import known_entropy

    steps, layout, script = records.steps, records.plan.layout, records.plan.worker.script
    world, window = layout.world_size, None
    if len({rank.rank for rank in records.ranks}) == world:  # every rank has closed its window
        window = max(rank.window_seconds for rank in records.ranks) or None
    tokens = sum(rank.measured_tokens for rank in records.ranks) if window else steps.measured_tokens
    contract_data = script is None or any(rank.data_fingerprint for rank in records.ranks)  # which script ranks record
    curve = steps.curve.points()
    drawn = device_figures(records, window)
    joules: float | None = drawn["energy_joules"]
    # use of cores and devices by others on the busiest node; a share of the cores needs two samples near the window
    hosts = [host.load for host in records.hosts.values() if host.load is not None]
    others: dict[str, list[Any]] = {
        "other_cpu_share": [node.load.share for node in records.readings.values()],
        "other_cpu_share_before": [load.other_cpu_share for load in hosts],
        "other_processes": [node.other_processes for node in records.readings.values()],
        "other_processes_before": [load.other_processes for load in hosts],
    }
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
        **drawn,
        **{name: max((each for each in known if each is not None), default=None) for name, known in others.items()},
        compile_seconds=max((rank.compile_seconds for rank in records.ranks if rank.compile_seconds), default=None),
        evaluation=of_first_rank(rank.evaluation for rank in records.ranks),
    )


def of_first_rank(values_of_ranks: Iterable[Mapping[str, T]]) -> dict[str, T]:
    """Values of ranks by name, each from the first rank that has it: pipeline stages have different operations."""
    named: dict[str, T] = {}
    for values in values_of_ranks:
        named = {**values, **named}
    return named
