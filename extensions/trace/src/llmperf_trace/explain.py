"""The traces that `llmperf compare --explain` reads: those of runs, or files of Chrome traces by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from llmperf import print_json, warn
from llmperf.errors import UserError
from llmperf.types import Result
from llmperf_compare.page import print_page

from llmperf_trace.chrome_traces import TraceOperations, is_trace, read_trace
from llmperf_trace.differences import PartDifference, TraceDifference, largest_first, trace_difference, traced_run
from llmperf_trace.explanation_page import explanation_page, operations_page

SOURCE = "Chrome traces"
"""Where the figures of files are from."""


def explained(
    sides: Mapping[str, Sequence[tuple[Path, Result]]],
    folders: Mapping[str, Path],
    alike: Mapping[str, bool],
    wanted: str,
) -> dict[str, TraceDifference]:
    """The traced steps of further sides against those of the first: of those in `alike` with the same contract."""
    _check_format(wanted)
    if len(sides) < 2:
        raise UserError("--explain: expected runs on two sides, found one side")
    reference = next(iter(sides))
    for name in [name for name, same in alike.items() if not same]:
        warn(f"--explain: {folders[name]}: another contract than {reference}: its operations are of other work")
    others = [name for name, same in alike.items() if same]
    traced = {name: traced_run(sides[name]) for name in (reference, *others)} if others else {}
    for name in [name for name, run in traced.items() if run is None]:
        warn(f"--explain: {folders[name]}: no run has a trace (llmperf run --trace 3)")
    theirs = traced.get(reference)
    return {
        name: trace_difference(ours, theirs)
        for name in others
        if (ours := traced[name]) is not None and theirs is not None
    }


def show(reference: str, differences: Mapping[str, TraceDifference], wanted: str, language: str) -> None:
    """Print a page for each side."""
    for name, difference in differences.items():
        click.echo()
        print_page(explanation_page(name, reference, difference), wanted, language)


def _check_format(wanted: str) -> None:
    if wanted not in ("terminal", "markdown", "json"):
        raise UserError(f"--explain: expected --format terminal, markdown or json, found {wanted}")


def compared_trace_files(
    folders: Mapping[str, Path], explain: bool, fail_below: float | None, wanted: str, language: str
) -> bool:
    """Print the operations of sides that are files of Chrome traces; False if none is, UserError if only some are."""
    traces = {name: path for name, path in folders.items() if path.is_file() and is_trace(path)}
    if not traces:
        return False
    if not explain:
        raise UserError(f"{next(iter(traces.values()))}: a Chrome trace has no measured figures; add --explain")
    if fail_below is not None:
        raise UserError("--fail-below: expected runs: Chrome traces have no measured figures")
    if others := [path for path in folders.values() if path.is_dir()]:
        raise UserError(f"{others[0]}: expected a Chrome trace, since {next(iter(traces.values()))} is one")
    places = [path.resolve() for path in folders.values()]
    if twice := [path for path, place in zip(folders.values(), places, strict=True) if places.count(place) > 1]:
        raise UserError(f"{twice[0]}: expected different files on all sides")
    sides = {name: read_trace(path) for name, path in folders.items()}
    _check_format(wanted)
    reference, *further = sides
    parts = {name: _parts(sides[name], sides[reference]) for name in further}
    if wanted == "json":
        known = {name: side.document(folders[name]) for name, side in sides.items()}
        both = {name: {"source": SOURCE, "traced": known[name], "reference": known[reference]} for name in further}
        compared = {name: both[name] | {"operations": [part.document() for part in parts[name]]} for name in further}
        print_json({"reference": reference, "sides": known, "chrome_traces": compared})
        return True
    for place, name in enumerate(further):
        click.echo("\n" if place else "", nl=False)
        both_traces = {each: (folders[each], sides[each]) for each in (reference, name)}
        print_page(operations_page(both_traces, parts[name]), wanted, language)
    return True


def _parts(run: TraceOperations, reference: TraceOperations) -> tuple[PartDifference, ...]:
    """All operations of both sides by name, the largest difference first."""
    parts = []
    for name in dict.fromkeys([*run.seconds, *reference.seconds]):
        (ours, calls), (theirs, before) = run.of_step(name), reference.of_step(name)
        parts.append(
            PartDifference(name=name, seconds=ours, reference_seconds=theirs, calls=calls, reference_calls=before)
        )
    return largest_first(parts)
