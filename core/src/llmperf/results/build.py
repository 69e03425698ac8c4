"""Plan + records -> Result: a pure function of a run folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from llmperf_schemas import RESULT_SCHEMA

from llmperf.accounting.flops import utilisation
from llmperf.results.failure import outcome
from llmperf.results.notes import notes
from llmperf.results.stragglers import waiting
from llmperf.results.throughput import metrics
from llmperf.runfolder.contents import RunRecords, read_run
from llmperf.types.result import Hardware, Result, Software


def build_result(run_dir: Path, secrets: tuple[str, ...] = ()) -> Result:
    """Compute the result of a run folder, whatever state the run was left in; UserError if it cannot be read.

    Findings are not filled in: validation does that. `secrets` are replaced where the logs have them.
    """
    return result_of(replace(read_run(run_dir), secrets=secrets))


def result_of(records: RunRecords) -> Result:
    """The same, of a run folder that was read."""
    plan, spec = records.plan, records.plan.spec
    status, failure = outcome(records)
    figures = metrics(records)
    return Result(
        schema=RESULT_SCHEMA,
        run_id=plan.run_id,
        created=plan.created,
        finished=records.ending.at if records.ending else plan.created,
        provenance="measured",
        status=status,
        failure=failure,
        case=spec.case,
        title=spec.title,
        variant=spec.variant,
        fix_hp=spec.changes,
        model=spec.model,
        parameters=plan.flops.parameters,
        contract=spec.contract,
        tuning=spec.tuning,
        framework=spec.framework,
        hardware=hardware(records),
        software=software(records),
        parallelism=plan.layout,
        batch=plan.batch,
        metrics=figures,
        mfu=utilisation(plan.flops, figures.tokens_per_second_per_device, plan.peak, plan.device_share),
        peak_problem=plan.peak_problem,
        waiting=waiting(records),
        loss_curve=records.steps.curve.points(),
        loss_curve_every=records.steps.curve.every,
        plugins=plan.plugins,
        findings=(),
        notes=notes(records),
        files=records.files,
    )


def hardware(records: RunRecords) -> Hardware:
    """The machine as probed, and the controller's host."""
    plan, host = records.plan, records.hosts.get(0)
    device = plan.probe.devices[0]
    return Hardware(
        vendor=plan.vendor,
        device_model=device.model,
        nodes=plan.layout.nodes,
        devices_per_node=plan.layout.devices_per_node,
        device_share=plan.device_share,
        device_memory_bytes=device.memory_bytes,
        driver=plan.probe.driver,
        interconnect=plan.probe.interconnect,
        host_cpu=host.cpu if host else None,
        host_memory_bytes=host.memory_bytes if host else None,
        simulated=plan.probe.simulated,
    )


def software(records: RunRecords) -> Software:
    """What the ranks ran on; the controller's Python where no rank got to say its own."""
    host, interpreter = records.hosts.get(0), records.plan.interpreter
    packages = dict(records.ranks[0].packages) if records.ranks else {}
    python = packages.pop("python", None) or (host.python if host else "unknown")
    return Software(
        os=host.os if host else "unknown",
        kernel=host.kernel if host else "unknown",
        python=python,
        worker_environment=None if interpreter is None else interpreter.environment or interpreter.path,
        packages=packages,
        notable_packages=host.notable_packages if host else (),
        environment=host.environment if host else {},
    )
