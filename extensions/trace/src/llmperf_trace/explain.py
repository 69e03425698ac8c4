"""The traces that `llmperf compare --explain` reads: those of runs, or files of Chrome traces by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from llmperf import print_json, print_page, warn
from llmperf.errors import UserError
from llmperf.types import Result

from llmperf_trace.chrome_traces import is_trace
from llmperf_trace.differences import TraceDifference, TracedRun, trace_difference, traced_run
from llmperf_trace.explanation_page import explanation_page, operations_page
from llmperf_trace.trace_operations import SOURCE, TracedOperations, joined, of_files, of_run

Joined = tuple[TracedOperations, TracedOperations]
"""The operations of a side and of the reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanations:
    """Operations that account for the differences between traced runs."""

    reference: str
    """Name of the side that the others are compared with."""
    differences: Mapping[str, TraceDifference]
    """By the name of the side."""
    operations: Mapping[str, Joined]
    """The Chrome traces, of sides where both runs have kept theirs."""

    def document(self) -> dict[str, object]:
        """Plain values for JSON; empty where no two sides have traces."""
        differences = {name: difference.document() for name, difference in self.differences.items()}
        traces = {name: _document(pair) for name, pair in self.operations.items()}
        document: dict[str, object] = {"explanations": differences, "chrome_traces": traces}
        return {name: values for name, values in document.items() if values}

    def show(self, wanted: str, language: str) -> None:
        """Print a page for each side."""
        for name, difference in self.differences.items():
            click.echo()
            print_page(explanation_page(name, self.reference, difference), wanted, language)
            if name in self.operations:
                click.echo()
                print_page(operations_page(name, self.reference, *self.operations[name]), wanted, language)


def explained(
    sides: Mapping[str, Sequence[tuple[Path, Result]]],
    folders: Mapping[str, Path],
    alike: Mapping[str, bool],
    wanted: str,
) -> Explanations:
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
    differences = {
        name: trace_difference(ours, theirs)
        for name in others
        if (ours := traced[name]) is not None and theirs is not None
    }
    read: dict[TracedRun, TracedOperations | None] = {}
    for run in dict.fromkeys(run for found in differences.values() for run in (found.reference, found.run)):
        try:
            read[run] = of_run(run)
        except UserError as error:
            read[run] = None
            warn(f"--explain: {error}: the figures of the records alone are shown")
    operations = {
        name: (mine, other)  # where both sides have kept their Chrome traces
        for name, found in differences.items()
        if (mine := read[found.run]) is not None and (other := read[found.reference]) is not None
    }
    return Explanations(reference=reference, differences=differences, operations=operations)


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
    sides = {name: of_files([path]) for name, path in folders.items()}
    _check_format(wanted)
    reference, *further = sides
    pairs = {name: (sides[name], sides[reference]) for name in further}
    if wanted == "json":
        print_json(
            {
                "reference": reference,
                "sides": {name: side.document() for name, side in sides.items()},
                "chrome_traces": {name: _document(pair) for name, pair in pairs.items()},
            }
        )
        return True
    for place, (name, pair) in enumerate(pairs.items()):
        click.echo("\n" if place else "", nl=False)
        print_page(operations_page(name, reference, *pair), wanted, language)
    return True


def _document(pair: Joined) -> dict[str, object]:
    """The operations of two sides, for JSON."""
    sides = {"traced": pair[0].document(), "reference": pair[1].document()}
    return {"source": SOURCE, **sides, "operations": [part.document() for part in joined(*pair)]}
