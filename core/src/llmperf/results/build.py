"""Plan + records -> Result: a pure function of a run folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from llmperf_schemas import RESULT_SCHEMA

from llmperf.accounting.flops import utilisation
from llmperf.results import device_readings
from llmperf.results.external import script_notes
from llmperf.results.failure import outcome
from llmperf.results.throughput import loss_curve, metrics, skipped_steps
from llmperf.runfolder.contents import RunRecords, read_run
from llmperf.types.result import Hardware, Result, Software

UNREAD_SECONDS = 5.0
"""Several readings; a short window may well lie between two."""


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
        loss_curve=loss_curve(records),
        plugins=plan.plugins,
        findings=(),
        notes=notes(records),
        files=records.files,
    )


def hardware(records: RunRecords) -> Hardware:
    """The machine as probed, and the controller's host."""
    plan, host = records.plan, records.host
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
    host, interpreter = records.host, records.plan.interpreter
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


def notes(records: RunRecords) -> tuple[str, ...]:
    """How figures were made where that is not plain."""
    found = [*records.plan.probe.problems, *records.plan.worker.notes, *records.plan.notes, *script_notes(records)]
    found += records.ending.notes if records.ending else ()
    if records.plan.peak_problem:
        found.append(f"no MFU: {records.plan.peak_problem}")
    missing = sorted({name for one in records.ranks for name, value in one.evaluation.items() if value is None})
    if missing:
        found.append(f"no number came of the evaluation for {', '.join(missing)}")
    return (*found, *_skipped(records), *_fewer_tokens(records), *_partly_read(records))


def _partly_read(records: RunRecords) -> Iterator[str]:
    """Of devices whose readings ended, or were missing, while the run went on, and of those that showed less."""
    whole = device_readings.devices(records)
    for name, known in device_readings.partly_shown(records).items():
        yield f"{name}: shown by {known} of {whole} devices, so that it is not known of all: null"
    found = device_readings.unread(records)
    if found is not None and found[0] > max(UNREAD_SECONDS, (1 - device_readings.COVERED) * found[1]):
        share = 1 - found[0] / found[1]
        yield (
            f"the devices were read over {100 * share:.0f} % of the measured window only: their memory, utilisation"
            " and power are of that part"
        )


def _skipped(records: RunRecords) -> Iterator[str]:
    """Of measured steps that trained nothing."""
    if skipped := skipped_steps(records):
        yield (
            f"{skipped} of the measured steps had gradients that were not finite, and no update (the loss scale was too"
            " large): their time counts in the throughput, their tokens do not; more warm-up steps leave them out"
        )


def _fewer_tokens(records: RunRecords) -> Iterator[str]:
    """Of steps that trained on fewer tokens than sequences hold."""
    planned = records.plan.batch.tokens_per_step
    if records.plan.spec.contract.packing == "padded":
        steps = records.complete_steps.values()
        if steps:
            share = sum(one.tokens for ranks in steps for one in ranks) / planned / len(steps)
            yield (
                f"padded sequences: {100 * share:.1f} % of their places hold tokens that were trained on; throughput,"
                " MFU and loss count these alone, though the device computes all places"
            )
        return
    fewer = [step for step, ranks in records.complete_steps.items() if sum(one.tokens for one in ranks) < planned]
    if fewer:
        yield (
            f"{len(fewer)} of {len(records.complete_steps)} steps trained on fewer than the planned {planned} tokens,"
            f" the first of them step {fewer[0]}; the throughput counts what was trained on"
        )
