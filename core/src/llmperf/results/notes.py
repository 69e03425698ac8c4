"""The notes of a result: what a reader must know about how its figures were made."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.runfolder.contents import RunRecords
from llmperf.types.flop_counts import PrecisionRecipe

MAX_DISAGREEMENT = 0.1
"""Share of the window by which the script's clock may differ from ours; lines that arrive late explain less."""
WINDOW = "the measured window, and so the throughput, is between the arrivals of its lines by llmperf's clock"


def notes(records: RunRecords, recipe: PrecisionRecipe) -> Iterator[str]:
    """All notes but those of nodes, in the order of planning, running and reading the records."""
    plan, steps = records.plan, records.steps
    contract, planned = plan.spec.contract, plan.batch.tokens_per_step
    yield from (*plan.probe.problems, *plan.worker.notes, *plan.notes, *_of_script(records))
    yield from records.ending.notes if records.ending else ()
    # a recipe with fewer bits than the usual one of 16: what it costs in loss is not in this result
    changed = [change.case_value for change in plan.spec.changes if change.path == "contract.precision"]
    if changed and (recipe.products == "fp8" or recipe.optimizer_states != "fp32"):
        yield (
            f"trained in {recipe.name}, not in {changed[0]} as the case: what that costs in loss is not in this result;"
            " llmperf align RUN REFERENCE compares it with a run in the case's precision"
        )
    if plan.peak_problem:
        yield f"no MFU: {plan.peak_problem}"
    if missing := sorted({name for rank in records.ranks for name, value in rank.evaluation.items() if value is None}):
        yield f"the evaluation gave no number for {', '.join(missing)}"
    if plan.spec.model.mixture is not None and records.ranks and not records.experts.loads():
        yield f"{plan.spec.tuning.framework} does not count the tokens of experts: their load is unknown"
    if records.ranks and (traced := len(plan.traced_steps)):
        after = f"after the measured steps and the evaluation, {traced} further steps were trained under a profiler"
        known = any(profile.rank == 0 for profile in records.profiles)
        yield f"{after}: no figure includes them" if known else f"{after}, which gave no trace: see the log of rank 0"
    if steps.skipped:
        yield (
            f"{steps.skipped} of the measured steps had gradients that were not finite, and no update (the loss scale"
            " was too large): their time counts in the throughput, their tokens do not; more warm-up steps leave them"
            " out"
        )
    if contract.packing == "padded" and steps.complete:
        share = steps.tokens / planned / steps.complete
        yield (
            f"padded sequences: {100 * share:.1f} % of their places hold tokens that were trained on; throughput,"
            " MFU and loss count these alone, though the device computes all places"
        )
    elif contract.packing != "padded" and steps.fewer:
        yield (
            f"{steps.fewer} of {steps.complete} steps trained on fewer than the planned {planned} tokens,"
            f" the first of them step {steps.first_fewer}; the throughput counts what was trained on"
        )
    if (every := steps.curve.every) > 1:
        yield (
            f"the loss curve has one step in {every}, the last one, and those whose loss is no number; all other"
            " figures are of all steps"
        )


def _of_script(records: RunRecords) -> Iterator[str]:
    """Notes on the origin of a script's times, and on disagreement between its clock and ours."""
    script = records.plan.worker.script
    if script is None:
        return
    reporting = next((rank for rank in records.ranks if rank.rank == script.step_rank), None)
    arrivals = reporting is not None and reporting.step_clock == "line arrivals"
    kinds = [] if arrivals else ["step times"]
    kinds += ["losses"] if any(rank.losses for rank in records.by_rank.values()) else []
    kinds += ["peak memory"] if any(rank.peak_memory_bytes is not None for rank in records.ranks) else []
    printed = " and ".join([", ".join(kinds[:-1]), *kinds[-1:]] if len(kinds) > 1 else kinds)
    if arrivals:
        beginning = f"{printed} are what the external script printed; it" if printed else "the external script"
        yield f"{beginning} printed no step times: these are the times between its lines; {WINDOW}"
        return
    yield f"{printed} are what the external script printed; {WINDOW}"
    window = reporting.window_seconds if reporting is not None else 0.0
    printing = records.by_rank.get(script.step_rank)
    seconds = printing.measured_seconds if printing is not None else 0.0
    if window and abs(seconds - window) > MAX_DISAGREEMENT * window:
        yield (
            f"the script's step times sum to {seconds:.4g} s, its lines came over {window:.4g} s:"
            " one of the two is wrong; the throughput is from the latter"
        )
