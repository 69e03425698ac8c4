"""Compare the runs of two or more folders: is one faster, and can that be chance?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase

import click
from llmperf import language_option, print_json, run_folders, warn
from llmperf.errors import UserError

from llmperf_compare.ci_findings import Checked, figure_findings, finding, speed_findings
from llmperf_compare.ci_findings import document as findings_document
from llmperf_compare.comparison import limit_text
from llmperf_compare.comparison_page import answer_lines, comparison_page, warning_lines
from llmperf_compare.copies import distinct_results, refuse_shared_runs
from llmperf_compare.documents import read_baselines, read_results
from llmperf_compare.kinds import AgainstReference, BaselineComparison, Side, compared, compared_with_figures, side_of
from llmperf_compare.options import Share, answer_format_options, baselines
from llmperf_compare.page import print_page

EXAMPLES = """\b
Examples:
  llmperf compare runs/before runs/after     folders of repeats (llmperf run --repeat 4 --out runs/after)
  llmperf compare runs/before runs/one runs/two        each against the first
  llmperf compare runs/after --baseline runs/before --fail-below 0.95    for CI: exit 1 if it got slower than that
  llmperf compare runs/after --baseline runs/before --format junit > compare.xml
  llmperf compare runs/before runs/after --explain    which operations account for it (run --trace)
  llmperf compare runs/MINE --baseline published       against the published row that fits
"""


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
    """Compare the runs of B, C and so on with those of the reference, which is side A: --baseline, or the first path.

    Each is a run folder, a result.json, or a folder of repeats. Where the contracts differ there are no ratios: the
    figures measure different things, and the output says in what they differ. Failed runs and copies are left out and
    counted. A run can be on one side only. There is a warning for a side that mixes kinds of run, for very uneven
    steps, and for ranks with different parts of a device. With --explain, a line on standard error names each side
    without a trace, which changes nothing else. Two files of Chrome traces can be compared too, with --explain.

    Exits with 0, 1 when two sides measured different contracts, no published row fits or --fail-below is not reached,
    2 when something cannot be read. A side without a complete run is an error: 2, or with --format json, junit,
    github and sarif, 1 with a finding.
    """
    if len(paths) == 1 and baseline is None:
        raise UserError("B: expected runs or documents, or --baseline PATH, to know what to compare the runs with")
    given = paths if baseline is None else (Path(baseline), *paths)  # the reference is A
    names = [*ascii_uppercase, *(f"side {place}" for place in range(27, len(given) + 1))]
    named = dict(zip(names, given, strict=False))
    try:
        from llmperf_trace.explain import compared_trace_files, explained, show
    except ModuleNotFoundError:
        if explain:
            raise UserError("--explain: expected the package llmperf-trace, which is not installed") from None
    else:
        if compared_trace_files(named, explain, fail_below, wanted, language):
            ctx.exit(0)
    of_path = {path: read_results(path) for path in given if path in paths or path.exists()}
    documents = baseline is not None and not of_path.get(Path(baseline))
    named = dict(zip(names, paths if documents else given, strict=False))
    read = {name: of_path[path] for name, path in named.items()}
    for name in [name for name, results in read.items() if not results]:
        why = f"expected runs, found imported documents; compare runs with them by --baseline {named[name]}"
        if any(named[name].glob("**/watched.json")):
            why = "expected runs, found watched programs, which `llmperf report` shows side by side"
        raise UserError(f"{named[name]}: {why}")
    sides = {name: side_of(distinct_results(results), len(results)) for name, results in read.items()}
    for name, side in sides.items():
        if not side.results and wanted in ("terminal", "markdown"):
            count = sum(side.left_out.values()) - side.left_out.get("copies", 0)
            raise UserError(f"{named[name]}: expected a complete run with a throughput, found none in {count} results")
    refuse_shared_runs({name: side.results for name, side in sides.items()})
    reference, *others = sides
    counted = [name for name in others if sides[name].results and sides[reference].results]
    comparisons = {name: compared(sides[name], sides[reference]) for name in counted}
    with_figures: dict[str, list[BaselineComparison]] = {}
    if baseline is not None and documents:
        kind, figures = read_baselines(baseline)
        for name, side in sides.items():
            with_figures[name] = [compared_with_figures(group, kind, figures) for group in side.groups]
    explanations = {}
    if explain:
        alike = {name: not comparison.contract_differences for name, comparison in comparisons.items()}
        explanations = explained(read, named, alike, wanted)
        for name in explanations:
            if comparisons[name].throughput.verdict == "no difference shown":
                warn(f"--explain: {name}: no difference is shown, so its operations may differ by chance")
    if wanted == "json":
        document = _document(named, sides, comparisons, with_figures)
        if explanations:
            document["explanations"] = {name: found.document() for name, found in explanations.items()}
        print_json(document)
    elif wanted in ("terminal", "markdown"):
        print_page(comparison_page(sides, comparisons, with_figures, language), wanted, language)
        if explanations:
            show(reference, explanations, wanted, language)
    else:
        places = {}  # of the first run that counts; of the first run, where none does
        for name, side in sides.items():
            used = {id(result) for result in side.results}
            places[name] = next((path for path, result in read[name] if id(result) in used), read[name][0][0])
        checked = _checked(named, places, sides, comparisons, with_figures, fail_below)
        click.echo(findings_document(checked, wanted, ctx.command_path), nl=False)
    ctx.exit(_exit_code(sides, comparisons, with_figures, fail_below))


def _document(
    folders: Mapping[str, Path],
    sides: Mapping[str, Side],
    comparisons: Mapping[str, AgainstReference],
    with_figures: Mapping[str, Sequence[BaselineComparison]],
) -> dict[str, object]:
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
    return document


def _checked(
    folders: Mapping[str, Path],
    places: Mapping[str, Path],
    sides: Mapping[str, Side],
    comparisons: Mapping[str, AgainstReference],
    with_figures: Mapping[str, Sequence[BaselineComparison]],
    fail_below: float | None,
) -> list[Checked]:
    """The findings on each side that was compared with something, or has no throughput to compare."""
    reference = next(iter(sides))
    checked = []
    for name, side in sides.items():
        found = [finding("disturbed", "warning", line.text) for line in warning_lines(name, side)]
        if not side.results:
            left_out = ", ".join(f"{count} {why}" for why, count in side.left_out.items())
            found.append(finding("no-throughput", "error", f"{name}: no complete run with a throughput: {left_out}"))
        elif (comparison := comparisons.get(name)) is not None:
            if comparison.of_devices is None:
                lines = answer_lines(name, sides, comparison)
                found += [finding("contracts-differ", "error", line.text) for line in lines]
            else:
                both = {each: sides[each].results for each in (reference, name)}
                found += speed_findings(comparison.of_devices, both, fail_below)
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
    reference, *_ = sides
    tested = {name: comparison.of_devices for name, comparison in comparisons.items()}
    shares = [None if each is None else each.ratio for each in tested.values()]
    shares += [held.share for figures in with_figures.values() for held in figures]
    for name, each in tested.items():
        if each is not None and fail_below is not None and each.ratio < fail_below:
            click.echo(limit_text(each, name, reference, fail_below), err=True)
    below = any(share is not None and fail_below is not None and share < fail_below for share in shares)
    return 1 if below or None in shares or not all(side.results for side in sides.values()) else 0
