"""Explain the gap between a result and another result, a published row or its estimate."""

from __future__ import annotations

import io
from contextlib import nullcontext, redirect_stdout
from math import log
from pathlib import Path
from typing import TYPE_CHECKING

import click
from llmperf import json_option, language_option, print_json, run_folders, warn, write_bytes

from llmperf_estimate.explain import Explanation, explained

if TYPE_CHECKING:
    from llmperf_compare.page import Page

EXAMPLES = """\b
Examples:
  llmperf explain runs/MINE --against runs/OTHER
  llmperf explain runs/MINE --against published                    the published row that fits
  llmperf explain runs/MINE --against llama2_7b_lora_a100.md:65    a row, as `llmperf report published` names it
  llmperf explain runs/MINE --against imported/theirs/published.json:64 --figure mfu
  llmperf explain runs/MINE --against estimate --json
"""
INTERVALS = {
    "95 %": "95 % interval of the ratio {low} to {high} ({runs} runs)",
    "range": "ratio of single runs {low} to {high} ({runs} runs: too few for an interval)",
    "steps": "one run: no interval; by the spread of its steps {low} to {high}",
}


@click.command("explain", epilog=EXAMPLES)
@click.argument("name", metavar="RESULT", shell_complete=run_folders)
@click.option("--against", metavar="ROW", required=True, shell_complete=run_folders,
              help="Runs; a published row, FILE:LINE; `published`, the row that fits; or `estimate`.")  # fmt: skip
@click.option("--figure", type=click.Choice(["auto", "tokens", "mfu"]), default="auto", show_default=True,
              help="Explain throughput or MFU; auto: MFU where a throughput is missing.")  # fmt: skip
@click.option(
    "-o", "--out", "output", metavar="FILE", type=click.Path(path_type=Path), help="Write Markdown, or JSON, to a file."
)
@language_option
@json_option
def command(name: str, against: str, figure: str, output: Path | None, language: str, as_json: bool) -> None:
    """Explain the gap between a result and another result, a published row or its estimate.

    RESULT is a run folder, a folder of repeats, a result.json, or a published row as FILE:LINE.

    The factors multiply exactly to the gap: FLOP convention, work, peak, recomputation, layout, communication, kernels,
    software, host. Each names its evidence; what no document shows is `unexplained`. Traces of both runs
    (`llmperf run --trace 3`) tell most. With repeats (`--repeat 4`), each factor has an interval, and what can be noise
    is no cause.
    """
    from llmperf_compare.page import print_page

    from llmperf_estimate.explain_sides import side_of

    run, text = side_of(name, warn), io.StringIO()
    found = explained(run, side_of(against, warn, run), figure)
    with nullcontext() if output is None else redirect_stdout(text):
        if as_json:
            print_json(found)
        else:
            print_page(page(found, language), "terminal" if output is None else "markdown", language)
    if output is not None:
        write_bytes(output, text.getvalue().encode())


def page(found: Explanation, language: str) -> Page:
    """The answer in one sentence, then a row for each factor with its evidence."""
    from llmperf.reporting import UNKNOWN, Column, printable, sentence, word
    from llmperf_compare.page import MAX_LINE, Line, Page

    def shown(value: float) -> str:
        return f"{100 * value:.4g} %" if found.figure == "MFU" else f"{value:,.5g}"

    def times(factor: float) -> str:
        return f"{factor:.2f}" if factor > 0.1 else f"{factor:.2g}"

    parts, rows, value = list[str](), list[tuple[str, ...]](), found.against_value
    for each in found.factors:
        value *= each.factor
        cause, how = (
            word(each.cause, language),
            word(each.how, language) + word(", can be noise", language) * each.can_be_noise,
        )
        if each.how == "the rest" or f"{each.factor:.2f}" != "1.00":
            parts.append(f"{cause} {times(each.factor)}x" + ("" if each.how == "the rest" else f" ({how})"))
        ends = UNKNOWN if each.low is None or each.high is None else f"{times(each.low)}-{times(each.high)}"
        rows.append((cause, times(each.factor), ends, shown(value), how, printable("; ".join(each.evidence), MAX_LINE)))
    known = {"run": found.run, "against": found.against, "ratio": times(found.ratio), "parts": ", ".join(parts)}
    lines = [sentence("{run} is {ratio}x {against}: {parts}", language, **known)]
    if found.unquantified and not found.within_noise and any(each.how == "recorded" for each in found.factors):
        lines = [
            sentence(
                "{run} is {ratio}x {against}: {parts}; more differs, by an unknown factor (below)", language, **known
            )
        ]
    if found.within_noise:
        lines = [
            sentence("{run} is {ratio}x {against}, within the noise: {parts}; no cause is named", language, **known)
        ]
    known = {"figure": word(found.figure, language), "value": shown(found.value), "other": shown(found.against_value)}
    measured = sentence("{figure}: {value} against {other}", language, **known)
    if found.interval is not None and found.low is not None and found.high is not None:
        known = {"low": f"{found.low:.2f}", "high": f"{found.high:.2f}", "runs": " + ".join(map(str, found.runs))}
        measured += f"; {sentence(INTERVALS[found.interval], language, **known)}"
    lines.append(measured)
    if found.estimate_error is not None:
        error, inside = found.estimate_error, abs(found.ratio - 1) <= found.estimate_error
        text = (
            "estimates may be {error} off: this is as expected"
            if inside
            else "estimates may be {error} off: this is more"
        )
        lines.append(sentence(text, language, error=f"{error:.0%}"))
    if found.traced_ratio is not None and not found.within_noise:
        unused = "by traced steps it is {ratio}x: traces do not explain the measured difference; trace more steps"
        lines.append(sentence(unused, language, ratio=times(found.traced_ratio)))
    rest, gap = (abs(log(each)) for each in (found.factors[-1].factor, found.ratio))
    if len(found.factors) > 1 and rest > gap / 2 and not found.within_noise and not found.factors[-1].can_be_noise:
        lines.append(word("the causes do not explain the measured difference: most of it is unexplained", language))
    notes = []
    if found.unquantified:
        differing = "; ".join(found.unquantified)
        notes.append(sentence("differs too, by an unknown factor: {parts}", language, parts=differing))
    if found.other_ratio is not None and abs(found.other_ratio / found.ratio - 1) > 0.02:
        figure, option = ("token/s", "tokens") if found.figure == "MFU" else ("MFU", "mfu")
        known = {"figure": figure, "ratio": times(found.other_ratio), "option": option}
        notes.append(sentence("{figure} is {ratio}x: --figure {option} explains it", language, **known))
    titles = {"cause": 1, "factor": 1, "interval": 3, "then": 4, "how": 5, "evidence": 2}
    numbers = ("factor", "interval", "then")
    columns = [Column(title=word(title, language), importance=place, right=title in numbers, wraps=30)
               for title, place in titles.items()]  # fmt: skip
    about, below = (tuple(Line(text=printable(line, MAX_LINE)) for line in part) for part in (lines, notes))
    title = word("The gap explained", language)
    return Page(title=title, about=about, columns=tuple(columns), rows=tuple(rows), notes=below)
