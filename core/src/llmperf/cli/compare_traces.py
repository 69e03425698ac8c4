"""The Chrome traces that `llmperf compare --explain` reads: those of runs, or files by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmperf.cli.colour import warn
from llmperf.cli.output import print_json, print_page

if TYPE_CHECKING:
    from llmperf.results.trace_difference import TraceDifference, TracedRun
    from llmperf.results.trace_operations import TracedOperations

Joined = tuple["TracedOperations", "TracedOperations"]
"""The operations of a side and of the reference."""


def trace_sides(
    folders: Mapping[str, Path], explain: bool, fail_below: float | None
) -> dict[str, TracedOperations] | None:
    """The operations of sides that are files of Chrome traces; None if none is.

    UserError if other sides are not, for a file that cannot be read or is on two sides, without `--explain`, and with
    `--fail-below`.
    """
    from llmperf.errors import UserError
    from llmperf.results.chrome_traces import is_trace

    traces = {name: path for name, path in folders.items() if path.is_file() and is_trace(path)}
    if not traces:
        return None
    if not explain:
        raise UserError(f"{next(iter(traces.values()))}: a Chrome trace has no measured figures; add --explain")
    if fail_below is not None:
        raise UserError("--fail-below: expected runs: Chrome traces have no measured figures")
    if others := [path for path in folders.values() if path.is_dir()]:
        raise UserError(f"{others[0]}: expected a Chrome trace, since {next(iter(traces.values()))} is one")
    places = [path.resolve() for path in folders.values()]
    if twice := [path for path, place in zip(folders.values(), places, strict=True) if places.count(place) > 1]:
        raise UserError(f"{twice[0]}: expected different files on all sides")
    from llmperf.results.trace_operations import of_file

    return {name: of_file(path) for name, path in folders.items()}


def show_trace_files(sides: Mapping[str, TracedOperations], wanted: str, language: str) -> None:
    """Print the operations of each further side beside those of the first."""
    from llmperf.errors import UserError

    if wanted not in ("terminal", "markdown", "json"):
        raise UserError(f"--explain: expected --format terminal, markdown or json, found {wanted}")
    reference, *others = sides
    pairs = {name: (sides[name], sides[reference]) for name in others}
    if wanted == "json":
        print_json(
            {
                "reference": reference,
                "sides": {name: side.document() for name, side in sides.items()},
                "chrome_traces": {name: document(pair) for name, pair in pairs.items()},
            }
        )
        return
    for place, (name, pair) in enumerate(pairs.items()):
        click.echo("\n" if place else "", nl=False)
        print_operations(name, reference, pair, wanted, language)


def print_operations(name: str, reference: str, pair: Joined, wanted: str, language: str) -> None:
    """Print the operations of two sides by name."""
    from llmperf.reporting.trace_difference import operations_page

    print_page(operations_page(name, reference, *pair), wanted, language)


def document(pair: Joined) -> dict[str, object]:
    """The operations of two sides, for JSON."""
    from llmperf.results.trace_operations import SOURCE, joined

    sides = {"traced": pair[0].document(), "reference": pair[1].document()}
    return {"source": SOURCE, **sides, "operations": [part.document() for part in joined(*pair)]}


def traces_of(explanations: Mapping[str, TraceDifference]) -> dict[str, Joined]:
    """The Chrome traces of explained runs, where both sides have kept theirs; a warning for one that is unreadable."""
    from llmperf.errors import UserError
    from llmperf.results.trace_operations import of_run

    read: dict[TracedRun, TracedOperations | None] = {}
    for run in dict.fromkeys(run for found in explanations.values() for run in (found.reference, found.run)):
        try:
            read[run] = of_run(run)
        except UserError as error:
            read[run] = None
            warn(f"--explain: {error}: the figures of the records alone are shown")
    pairs = {name: (read[found.run], read[found.reference]) for name, found in explanations.items()}
    return {name: (ours, theirs) for name, (ours, theirs) in pairs.items() if ours is not None and theirs is not None}
