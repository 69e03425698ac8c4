"""Compare the loss of runs with that of a reference, step by step, as a table and as curves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
from llmperf import (
    Finite,
    json_option,
    language_option,
    on_stdout,
    painted,
    print_json,
    print_table,
    print_text,
    run_folders,
    warn,
)
from llmperf.errors import UserError
from llmperf.reporting import UNKNOWN, printable, sentence, word
from llmperf.types import Result
from llmperf.validation import read_run_result

from llmperf_compare.alignment import FROM_STEP, MEAN_LIMIT, Alignment, align

Labels = Mapping[str, str]
"""Label of each run, by its identity."""
Points = Sequence[tuple[float, float]]

MARKS = "*ox+#@%&"
WIDTH, HEIGHT = 80, 20
WORDS = {True: "ok", False: "failed", None: "warning"}
"""The word whose colour each verdict has."""

EXAMPLES = """\b
Examples:
  llmperf align runs/MINE runs/REFERENCE               as published results are aligned
  llmperf align runs/A runs/B runs/REF --from-step 1   several runs against the last one, from the first step on
  llmperf align runs/A runs/REF --from-step 1 --step-limit 1e-3 --json
"""


@click.command("align", epilog=EXAMPLES)
@click.argument("runs", metavar="RUN... REFERENCE", nargs=-1, required=True, type=click.Path(path_type=Path),
                shell_complete=run_folders)  # fmt: skip
@click.option(
    "--from-step", type=click.IntRange(1), metavar="N", help="First step that counts in the mean, from 1. [21]"
)
@click.option(
    "--mean-limit", type=Finite(min=0, min_open=True), metavar="SHARE", help="Largest mean relative error. [0.02]"
)
@click.option("--step-limit", type=Finite(min=0), metavar="NATS", help="Largest difference of any step. [none]")
@click.option("--plot/--no-plot", default=True, help="Draw the curves. [on]")
@language_option
@json_option
@click.pass_context
def command(
    ctx: click.Context, runs: tuple[Path, ...], from_step: int | None, mean_limit: float | None,
    step_limit: float | None, plot: bool, language: str, as_json: bool,
) -> None:  # fmt: skip
    """Compare the loss of runs with that of a reference, step by step. Each is a run folder or a result.json.

    A run that failed, or whose loss is not a number, is not aligned. The outcome is unknown for a run compared with
    itself, or with one on another model, data, seed, sequence length, batch or optimiser.

    Exits with 0 if all are aligned, 1 if a run is not or it is unknown, 2 if a result cannot be read.
    """
    if len(runs) < 2:
        raise UserError("llmperf align: expected one run or more and the reference, found one path")
    results = [read_run_result(path) for path in runs]
    limit = MEAN_LIMIT if mean_limit is None else mean_limit
    runs_with_losses = [result for result in results[:-1] if result.loss_curve] or results[:-1]
    for result in results[:-1]:
        if result not in runs_with_losses:
            warn(f"not aligned: {result.run_id} is {result.status} and has no losses")
    alignments = [align(run, results[-1], from_step or FROM_STEP, limit, step_limit) for run in runs_with_losses]
    if as_json:
        print_json(alignments)
    else:
        _print(alignments, [*runs_with_losses, results[-1]], limit, plot, language)
    ctx.exit(0 if len(alignments) == len(results) - 1 and all(alignment.passed for alignment in alignments) else 1)


def _print(alignments: list[Alignment], results: list[Result], limit: float, plot: bool, language: str) -> None:
    names = labels(results)
    print_table(*step_rows(alignments, names, language))
    for drawing in plots(alignments, names, on_stdout(), language) if plot else ():
        print_text(f"\n{drawing}")
    click.echo()
    for alignment in alignments:
        print_text(painted(WORDS[alignment.passed], verdict(alignment, names, limit, language)))


def labels(results: Sequence[Result]) -> Labels:
    """The framework of each run where all differ, else its identity."""
    frameworks = [result.tuning.framework for result in results]
    distinct = len(set(frameworks)) == len(frameworks)
    return {result.run_id: printable(result.tuning.framework if distinct else result.run_id) for result in results}


def step_rows(
    alignments: Sequence[Alignment], names: Labels, language: str = "en"
) -> tuple[list[str], list[list[str]]]:
    """Headers and one row for each step: the loss of the reference, then of each run, with its difference."""
    headers = [word("step", language), f"{names[alignments[0].reference_id]} ({word('reference', language)})"]
    for alignment in alignments:
        headers += [names[alignment.run_id], word("difference", language)]
    references = {step.step: step.reference for alignment in alignments for step in alignment.steps}
    runs = [{step.step: step for step in alignment.steps} for alignment in alignments]
    rows = []
    for number, reference in sorted(references.items()):
        row = [str(number), f"{reference:.6f}"]
        for steps in runs:
            step = steps.get(number)
            row += [UNKNOWN] * 2 if step is None else [f"{step.loss:.6f}", f"{step.absolute:.1e}"]
        rows.append(row)
    return headers, rows


def verdict(alignment: Alignment, names: Labels, mean_limit: float, language: str = "en") -> str:
    """One line: whether a run is aligned, and by which figures."""
    outcome = {True: "aligned", False: "NOT aligned", None: "cannot tell"}[alignment.passed]
    mean = alignment.mean_relative
    values = {"step": alignment.from_step, "limit": f"{100 * mean_limit:g}", "first": alignment.steps[0].step}
    if mean is None:
        text = "no step from {step} on (--from-step {first} counts all they have)"
        counted = sentence(text, language, **values)
    else:
        text = "mean relative error {mean} % from step {step} on (limit {limit} %)"
        counted = sentence(text, language, **values, mean=f"{100 * mean:.4f}")
    parts = ", ".join(word(part, language) for part in alignment.unlike)
    unlike = sentence("; contracts differ in {parts}", language, parts=parts) if parts else ""
    why = "".join(f"{printable(word(reason, language))}; " for reason in alignment.why)
    text = "{name}: {outcome}: {why}{counted}, largest difference {largest} nats in {steps} steps"
    values = {"name": names[alignment.run_id], "outcome": word(outcome, language), "why": why, "counted": counted}
    values |= {"largest": f"{alignment.largest_absolute:.1e}", "steps": len(alignment.steps)}
    return f"{sentence(text, language, **values)}{unlike}{_recipes(alignment)}"


def _recipes(alignment: Alignment) -> str:
    """A sentence on the cost in loss of another precision recipe, and whether the reference has that of its case."""
    if (differ := alignment.precisions) is None:
        return ""
    emulated = " (emulated)" if differ.emulated else ""
    case = "the case's precision" if differ.reference == differ.case else f"not the case's precision, {differ.case}"
    return (
        f"; {printable(differ.run)}{emulated} against {printable(differ.reference)}, {case}:"
        f" the loss differs by {alignment.mean_absolute:.1e} nats in the mean of all steps, most at step"
        f" {alignment.largest_step}"
    )


def plots(alignments: Sequence[Alignment], names: Labels, colour: bool, language: str = "en") -> Iterator[str]:
    """The loss curves, and the differences from the reference if there are any."""
    first = alignments[0]
    reference = f"{names[first.reference_id]} ({word('reference', language)})"
    curves = {reference: [(float(step.step), step.reference) for step in first.steps]}
    curves |= {names[run.run_id]: [(float(step.step), step.loss) for step in run.steps] for run in alignments}
    yield drawn(word("loss, nats per token, by step", language), curves, colour)
    apart = {names[run.run_id]: [(float(step.step), step.absolute) for step in run.steps] for run in alignments}
    if any(distance > 0 for points in apart.values() for _, distance in points):
        title = word("difference from the reference, nats, by step", language)
        yield drawn(sentence("log10 of {title}", language, title=title), apart, colour, log=True)


def drawn(title: str, curves: Mapping[str, Points], colour: bool, log: bool = False) -> str:
    """A chart of curves of points (x, y), each with its own mark; `log` draws log10(y), and leaves out y <= 0."""
    import plotext

    figure = plotext.figure
    figure.clear()
    figure.theme("simple" if colour else "colorless")  # both leave the background to the terminal
    figure.plot_size(WIDTH, HEIGHT)
    for mark, points in zip(marks(len(curves)), curves.values(), strict=True):
        shown = [(x, math.log10(y) if log else y) for x, y in points if y > 0 or not log]
        if shown:
            figure.draw(figure.signal([x for x, _ in shown], [y for _, y in shown], marker=mark))
    figure.legend(active=False)
    figure.title(title)
    text = str(figure.build().string(colorless=not colour))
    figure.clear()
    explained = "   ".join(f"{mark} {name}" for mark, name in zip(marks(len(curves)), curves, strict=True))
    return "\n".join([*(line.rstrip() for line in text.splitlines()), f"     {explained}"])


def marks(number: int) -> str:
    """One mark for each curve; marks repeat after the last."""
    return (MARKS * (1 + number // len(MARKS)))[:number]
