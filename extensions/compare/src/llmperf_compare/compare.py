"""`llmperf compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING

import click

from llmperf.cli.colour import warn
from llmperf.cli.compare_traces import Joined, print_operations, show_trace_files, trace_sides, traces_of
from llmperf.cli.compare_traces import document as trace_document
from llmperf.cli.completed_values import baselines, run_folders
from llmperf.cli.options import Share
from llmperf.cli.output import (
    answer_format_options,
    distinct_results,
    language_option,
    print_json,
    print_page,
    refuse_shared_runs,
)

if TYPE_CHECKING:
    from llmperf.reporting.speed_findings import Checked
    from llmperf.results.baselines import BaselineComparison
    from llmperf.results.comparison_side import AgainstReference, Side
    from llmperf.results.trace_difference import TraceDifference
    from llmperf.types import Result

Read = tuple[tuple[Path, "Result"], ...]
"""Results, each with its file."""

EXAMPLES = """\b
Examples:
  llmperf compare runs/before runs/after     folders of repeats (llmperf run --repeat 4 --out runs/after)
  llmperf compare runs/before runs/one runs/two        each against the first
  llmperf compare runs/after --baseline runs/before --fail-below 0.95    for CI: exit 1 if it got slower than that
  llmperf compare runs/after --baseline runs/before --format junit > compare.xml
  llmperf compare runs/before runs/after --explain    which operations account for it (run --trace)
  llmperf compare runs/MINE --baseline published       against the published row that fits
"""
BASELINE = "baseline"
"""Name of the side that --baseline gives."""


@click.command("compare", epilog=EXAMPLES)
@click.argument("paths", metavar="A [B...]", nargs=-1, required=True, type=click.Path(path_type=Path),
                shell_complete=run_folders)  # fmt: skip
@click.option("--baseline", metavar="PATH|published", shell_complete=baselines,
              help="The reference: runs, imported documents, or the published rows that are shipped. [A]")  # fmt: skip
@click.option("--fail-below", metavar="SHARE", type=Share(),
              help="Exit with 1 if a median is below this share of the reference's.")  # fmt: skip
@click.option("--explain", is_flag=True,
              help="Show which operations account for it, of runs made with llmperf run --trace.")  # fmt: skip
@language_option
@answer_format_options
@click.pass_context
def command(
    ctx: click.Context, paths: tuple[Path, ...], baseline: str | None, fail_below: float | None,
    explain: bool, language: str, wanted: str,
) -> None:  # fmt: skip
    """Compare the runs of B, C and so on with those of the reference: --baseline, otherwise A.

    Each is a run folder, a result.json, or a folder of repeats. Where the contracts differ there are no ratios: the
    figures measure different things, and the output says in what they differ. Failed runs and copies are left out and
    counted. A run can be on one side only. There is a warning for a side that mixes kinds of run, for very uneven
    steps, and for ranks with different parts of a device. With --explain, a line on standard error names each side
    without a trace, which changes nothing else. Two files of Chrome traces can be compared too, with --explain.

    Exits with 0, 1 when two sides measured different contracts, no published row fits or --fail-below is not reached,
    2 when something cannot be read. A side without a complete run is an error: 2, or with --format json, junit,
    github and sarif, 1 with a finding.
    """
    from llmperf.errors import UserError
    from llmperf.reporting.comparison import comparison_page

    if len(paths) == 1 and baseline is None:
        raise UserError("B: expected runs or documents, or --baseline PATH, to know what to compare the runs with")
    named = {} if baseline is None else {BASELINE: Path(baseline)}
    named |= {_name(place): path for place, path in enumerate(paths)}
    if (traces := trace_sides(named, explain, fail_below)) is not None:
        show_trace_files(traces, wanted, language)
        ctx.exit(0)
    reference = {} if baseline is None else _reference(Path(baseline))
    read = reference | {_name(place): _results(path) for place, path in enumerate(paths)}
    folders = {BASELINE: Path(baseline)} if reference and baseline else {}
    folders |= {_name(place): path for place, path in enumerate(paths)}
    sides = {name: _side(results) for name, results in read.items()}
    for name, side in sides.items():
        if not side.results and wanted in ("terminal", "markdown"):
            count = sum(side.left_out.values()) - side.left_out.get("copies", 0)
            raise UserError(
                f"{folders[name]}: expected a complete run with a throughput, found none in {count} results"
            )
    comparisons = _compared(sides)
    with_figures = {} if baseline is None or reference else _with_figures(sides, baseline)
    explanations = _explained(read, folders, comparisons, wanted) if explain else {}
    operations = traces_of(explanations)
    if wanted == "json":
        _print_json(folders, sides, comparisons, with_figures, explanations, operations)
    elif wanted in ("terminal", "markdown"):
        print_page(comparison_page(sides, comparisons, with_figures, language), wanted, language)
        _print_explanations(explanations, operations, next(iter(sides)), wanted, language)
    else:
        from llmperf.reporting.speed_findings import document

        places = {name: _first_file(read[name], side) for name, side in sides.items()}
        checked = _checked(folders, places, sides, comparisons, with_figures, fail_below)
        click.echo(document(checked, wanted, ctx.command_path), nl=False)
    ctx.exit(_exit_code(sides, comparisons, with_figures, fail_below))


def _name(place: int) -> str:
    return ascii_uppercase[place] if place < len(ascii_uppercase) else f"side {place + 1}"


def _reference(baseline: Path) -> dict[str, Read]:
    """The runs that --baseline names, as a side by its name; empty if it names none."""
    from llmperf.reporting.reading import read_results

    results = read_results(baseline) if baseline.exists() else ()
    return {BASELINE: results} if results else {}


def _results(path: Path) -> Read:
    """The results at a path; UserError if there are only documents of other kinds."""
    from llmperf.errors import UserError
    from llmperf.reporting.reading import read_results

    if results := read_results(path):
        return results
    raise UserError(f"{path}: expected runs, found imported documents; compare runs with them by --baseline {path}")


def _side(results: Read) -> Side:
    from llmperf.results.comparison_side import side

    runs = distinct_results(results)
    return side([result for _, result in runs], copies=len(results) - len(runs))


def _first_file(results: Read, side: Side) -> Path:
    """The file of the first run that counts; of the first run, where none does."""
    counted = {id(result) for result in side.results}
    return next((path for path, result in results if id(result) in counted), results[0][0])


def _compared(sides: Mapping[str, Side]) -> dict[str, AgainstReference]:
    """Each further side compared with the first, where both have a throughput; UserError if a run is on two sides."""
    from llmperf.results.comparison_side import compared

    refuse_shared_runs({name: side.results for name, side in sides.items()})
    reference, *others = sides
    return {
        name: compared(sides[name], sides[reference])
        for name in others
        if sides[name].results and sides[reference].results
    }


def _with_figures(sides: Mapping[str, Side], baseline: str) -> dict[str, list[BaselineComparison]]:
    """Each kind of runs on each side compared with the figure that fits."""
    from llmperf.reporting.reading import read_baselines
    from llmperf.results.baselines import compared_with_figures

    kind, figures = read_baselines(baseline)
    return {
        name: [compared_with_figures(group, kind, figures) for group in side.groups] for name, side in sides.items()
    }


def _explained(
    read: Mapping[str, Read], folders: Mapping[str, Path], comparisons: Mapping[str, AgainstReference], wanted: str
) -> dict[str, TraceDifference]:
    """The traced steps of each further side against those of the first, where the contracts are alike.

    A warning on standard error names each side without a trace. UserError for a format that has no place for them.
    """
    from llmperf.errors import UserError
    from llmperf.results.trace_difference import trace_difference, traced_run

    if wanted not in ("terminal", "markdown", "json"):
        raise UserError(f"--explain: expected --format terminal, markdown or json, found {wanted}")
    if len(read) < 2:
        raise UserError("--explain: expected runs on two sides, found one side")
    alike = [name for name, comparison in comparisons.items() if not comparison.contract_differences]
    reference = next(iter(read))
    for name in [name for name in comparisons if name not in alike]:
        warn(f"--explain: {folders[name]}: another contract than {reference}: its operations are of other work")
    traced = {name: traced_run(read[name]) for name in (reference, *alike)} if alike else {}
    for name in [name for name, run in traced.items() if run is None]:
        warn(f"--explain: {folders[name]}: no run has a trace (llmperf run --trace 3)")
    theirs = traced.get(reference)
    return {
        name: trace_difference(ours, theirs)
        for name in alike
        if (ours := traced[name]) is not None and theirs is not None
    }


def _print_explanations(
    explanations: Mapping[str, TraceDifference],
    operations: Mapping[str, Joined],
    reference: str,
    wanted: str,
    language: str,
) -> None:
    from llmperf.reporting.trace_difference import explanation_page

    for name, found in explanations.items():
        click.echo()
        print_page(explanation_page(name, reference, found), wanted, language)
        if name in operations:
            click.echo()
            print_operations(name, reference, operations[name], wanted, language)


def _print_json(
    folders: Mapping[str, Path],
    sides: Mapping[str, Side],
    comparisons: Mapping[str, AgainstReference],
    with_figures: Mapping[str, Sequence[BaselineComparison]],
    explanations: Mapping[str, TraceDifference],
    operations: Mapping[str, Joined],
) -> None:
    document: dict[str, object] = {
        "reference": next(iter(sides)),
        "sides": {name: {"path": str(folders[name]), **side.document()} for name, side in sides.items()},
        "comparisons": {name: comparison.document() for name, comparison in comparisons.items()},
    }
    for kind in {held.kind for figures in with_figures.values() for held in figures}:
        document[kind] = {
            name: [{"kind": held.group.kind} | held.figures() for held in figures]
            for name, figures in with_figures.items()
        }
    if explanations:
        document["explanations"] = {name: found.document() for name, found in explanations.items()}
    if operations:
        document["chrome_traces"] = {name: trace_document(pair) for name, pair in operations.items()}
    print_json(document)


def _checked(
    folders: Mapping[str, Path],
    places: Mapping[str, Path],
    sides: Mapping[str, Side],
    comparisons: Mapping[str, AgainstReference],
    with_figures: Mapping[str, Sequence[BaselineComparison]],
    fail_below: float | None,
) -> list[Checked]:
    """The findings on each side that was compared with something, or has no throughput to compare."""
    from llmperf.reporting.comparison import answer_lines, warning_lines
    from llmperf.reporting.speed_findings import Checked, figure_findings, finding, line_findings, speed_findings

    reference = next(iter(sides))
    checked = []
    for name, side in sides.items():
        found = list(line_findings(warning_lines(name, side)))
        if not side.results:
            left_out = ", ".join(f"{count} {why}" for why, count in side.left_out.items())
            found.append(finding("no-throughput", "error", f"{name}: no complete run with a throughput: {left_out}"))
        elif (comparison := comparisons.get(name)) is not None:
            if comparison.contract_differences:
                lines = answer_lines(name, sides, comparison)
                found += [finding("contracts-differ", "error", line.text) for line in lines]
            else:
                throughput = comparison.device_throughput or comparison.throughput
                found += speed_findings(throughput, name, reference, fail_below)
        elif name != reference:
            found.append(finding("no-baseline", "error", f"{name}: {reference} has no complete run with a throughput"))
        for held in with_figures.get(name, ()):
            found += figure_findings(held, "error", fail_below)
        if name != reference or not side.results or with_figures:
            checked.append(Checked(name=f"{name}: {folders[name]}", path=places[name], findings=tuple(found)))
    return checked


def _exit_code(
    sides: Mapping[str, Side],
    comparisons: Mapping[str, AgainstReference],
    with_figures: Mapping[str, Sequence[BaselineComparison]],
    fail_below: float | None,
) -> int:
    """1 where contracts differ, no figure fits, or a side is too slow or has no throughput."""
    shares = {name: comparison.share for name, comparison in comparisons.items()}
    held = [comparison.share for figures in with_figures.values() for comparison in figures]
    slow = [name for name, share in shares.items() if share is not None and fail_below and share < fail_below]
    for name in slow:
        click.echo(f"{name}: {shares[name]:.4f} of the reference, expected at least {fail_below:g}", err=True)
    below = any(share is not None and fail_below is not None and share < fail_below for share in held)
    empty = not all(side.results for side in sides.values())
    return 1 if slow or below or empty or None in [*shares.values(), *held] else 0
