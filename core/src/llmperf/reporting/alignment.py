"""Runs held against a reference, as a table and as curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from llmperf.reporting import cells
from llmperf.reporting.curves import drawn
from llmperf.results.alignment import Alignment
from llmperf.types.result import Result

Labels = Mapping[str, str]


def labels(results: Sequence[Result]) -> Labels:
    """What to call each run, by its identity: its framework's name where that tells them apart."""
    frameworks = [one.tuning.framework for one in results]
    distinct = len(set(frameworks)) == len(frameworks)
    return {one.run_id: cells.printable(one.tuning.framework if distinct else one.run_id) for one in results}


def step_rows(alignments: Sequence[Alignment], named: Labels) -> tuple[list[str], list[list[str]]]:
    """Headers and one row a step: the reference's loss, then each run's and its difference."""
    headers = ["step", f"{named[alignments[0].reference_id]} (reference)"]
    headers += [header for one in alignments for header in (named[one.run_id], "difference")]
    losses = {one.step: one.reference for alignment in alignments for one in alignment.steps}
    found = [{one.step: one for one in alignment.steps} for alignment in alignments]
    rows = []
    for step, reference in sorted(losses.items()):
        row = [str(step), f"{reference:.6f}"]
        for steps in found:
            one = steps.get(step)
            row += [cells.UNKNOWN] * 2 if one is None else [f"{one.loss:.6f}", f"{one.absolute:.1e}"]
        rows.append(row)
    return headers, rows


def verdict(alignment: Alignment, named: Labels, mean_limit: float) -> str:
    """One line: what was compared, what came out."""
    word = {True: "aligned", False: "NOT aligned", None: "cannot tell"}[alignment.passed]
    mean = alignment.mean_relative
    counted = (
        f"no step from {alignment.from_step} on (--from-step {alignment.steps[0].step} counts all they have)"
        if mean is None
        else f"mean relative error {100 * mean:.4f} % from step {alignment.from_step} on (limit {100 * mean_limit:g} %)"
    )
    unlike = f"; contracts differ in {', '.join(alignment.unlike)}" if alignment.unlike else ""
    why = "".join(f"{cells.printable(one)}; " for one in alignment.why)
    largest = f"largest difference {alignment.largest_absolute:.1e} nats in {len(alignment.steps)} steps"
    return f"{named[alignment.run_id]}: {word}: {why}{counted}, {largest}{unlike}"


def plots(alignments: Sequence[Alignment], named: Labels, colour: bool) -> Iterator[str]:
    """The loss curves, and how far each is from the reference."""
    first = alignments[0]
    curves = {f"{named[first.reference_id]} (reference)": [(float(one.step), one.reference) for one in first.steps]}
    curves |= {named[one.run_id]: [(float(step.step), step.loss) for step in one.steps] for one in alignments}
    yield drawn("loss, nats per token, by step", curves, colour)
    apart = {named[one.run_id]: [(float(step.step), step.absolute) for step in one.steps] for one in alignments}
    if any(distance > 0 for points in apart.values() for _, distance in points):
        yield drawn("difference from the reference, nats, by step", apart, colour, log=True)
