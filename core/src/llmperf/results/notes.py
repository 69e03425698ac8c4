"""The notes of a result: what a reader must know about how its figures were made."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.accounting.precisions import precision_recipe
from llmperf.results import device_readings
from llmperf.runfolder.contents import RunRecords
from llmperf.types.spec import RunSpec

UNREAD_SECONDS = 5.0
"""Several readings: a short window may lie between two."""
MAX_DISAGREEMENT = 0.1
"""Share of the window by which the script's clock may differ from ours; lines that arrive late explain less."""
WINDOW = "the measured window, and so the throughput, is between the arrivals of its lines by llmperf's clock"


def notes(records: RunRecords) -> tuple[str, ...]:
    """All notes, in the order of planning, running and reading the records."""
    plan = records.plan
    known = [*plan.probe.problems, *plan.worker.notes, *plan.notes, *script_notes(records)]
    known += [*(records.ending.notes if records.ending else ()), *_other_recipe(plan.spec)]
    if plan.peak_problem:
        known.append(f"no MFU: {plan.peak_problem}")
    missing = sorted({name for rank in records.ranks for name, value in rank.evaluation.items() if value is None})
    if missing:
        known.append(f"the evaluation gave no number for {', '.join(missing)}")
    return (
        *known,
        *_uncounted_experts(records),
        *_traced(records),
        *_skipped(records),
        *_fewer_tokens(records),
        *_thinned_curve(records),
        *_partly_read(records),
    )


def _other_recipe(spec: RunSpec) -> Iterator[str]:
    """A recipe with fewer bits than the usual one of 16: what it costs in loss is not in this result."""
    recipe = precision_recipe(spec.contract.precision)
    lower = recipe.products == "fp8" or recipe.optimizer_states != "fp32"
    changed = [change.case_value for change in spec.changes if change.path == "contract.precision"]
    if lower and changed:
        yield (
            f"trained in {recipe.name}, not in {changed[0]} as the case: what that costs in loss is not in this result;"
            " llmperf align RUN REFERENCE compares it with a run in the case's precision"
        )


def _partly_read(records: RunRecords) -> Iterator[str]:
    """Figures that only some devices showed, and readings that do not cover the measured window."""
    whole = device_readings.devices(records)
    for name, known in device_readings.partly_shown(records).items():
        yield f"{name}: shown by {known} of {whole} devices, so that it is not known of all: null"
    unread = device_readings.unread(records)
    if unread is None:
        return
    missing, window = unread
    if missing > max(UNREAD_SECONDS, (1 - device_readings.COVERED) * window):
        yield (
            f"the devices were read over {100 * (1 - missing / window):.0f} % of the measured window only: their"
            " memory, utilisation and power are of that part"
        )


def _uncounted_experts(records: RunRecords) -> Iterator[str]:
    """A mixture whose framework does not count the tokens of its experts."""
    plan = records.plan
    if plan.spec.model.mixture is not None and records.ranks and not records.experts.loads():
        yield f"{plan.spec.tuning.framework} does not count the tokens of experts: their load is unknown"


def _traced(records: RunRecords) -> Iterator[str]:
    """Steps of which a trace was kept."""
    if records.ranks and (steps := len(records.plan.traced_steps)):
        after = f"after the measured steps and the evaluation, {steps} further steps were trained under a profiler"
        known = any(profile.rank == 0 for profile in records.profiles)
        yield f"{after}: no figure includes them" if known else f"{after}, which gave no trace: see the log of rank 0"


def _skipped(records: RunRecords) -> Iterator[str]:
    """Measured steps without an update."""
    if skipped := records.steps.skipped:
        yield (
            f"{skipped} of the measured steps had gradients that were not finite, and no update (the loss scale was too"
            " large): their time counts in the throughput, their tokens do not; more warm-up steps leave them out"
        )


def _fewer_tokens(records: RunRecords) -> Iterator[str]:
    """Steps that trained on fewer tokens than their sequences hold."""
    planned = records.plan.batch.tokens_per_step
    steps = records.steps
    if records.plan.spec.contract.packing == "padded":
        if steps.complete:
            share = steps.tokens / planned / steps.complete
            yield (
                f"padded sequences: {100 * share:.1f} % of their places hold tokens that were trained on; throughput,"
                " MFU and loss count these alone, though the device computes all places"
            )
        return
    if steps.fewer:
        yield (
            f"{steps.fewer} of {steps.complete} steps trained on fewer than the planned {planned} tokens,"
            f" the first of them step {steps.first_fewer}; the throughput counts what was trained on"
        )


def _thinned_curve(records: RunRecords) -> Iterator[str]:
    """A loss curve that does not have all steps."""
    if (every := records.steps.curve.every) > 1:
        yield (
            f"the loss curve has one step in {every}, the last one, and those whose loss is no number; all other"
            " figures are of all steps"
        )


def _printed(records: RunRecords, *more: str) -> str:
    """The kinds of figures that the script printed, and further ones, as words; empty if there are none."""
    losses = any(rank.losses for rank in records.by_rank.values())
    memory = any(rank.peak_memory_bytes is not None for rank in records.ranks)
    kinds = [*more, *(["losses"] if losses else []), *(["peak memory"] if memory else [])]
    return " and ".join([", ".join(kinds[:-1]), *kinds[-1:]] if len(kinds) > 1 else kinds)


def script_notes(records: RunRecords) -> Iterator[str]:
    """Notes on the origin of times, and on disagreement between the script's clock and ours."""
    script = records.plan.worker.script
    if script is None:
        return
    reporting = next((rank for rank in records.ranks if rank.rank == script.step_rank), None)
    if reporting is not None and reporting.step_clock == "line arrivals":
        kinds = _printed(records)
        beginning = f"{kinds} are what the external script printed; it" if kinds else "the external script"
        yield f"{beginning} printed no step times: these are the times between its lines; {WINDOW}"
        return
    yield f"{_printed(records, 'step times')} are what the external script printed; {WINDOW}"
    window = reporting.window_seconds if reporting is not None else 0.0
    printing = records.by_rank.get(script.step_rank)
    printed = printing.measured_seconds if printing is not None else 0.0
    if window and abs(printed - window) > MAX_DISAGREEMENT * window:
        yield (
            f"the script's step times sum to {printed:.4g} s, its lines came over {window:.4g} s:"
            " one of the two is wrong; the throughput is from the latter"
        )
