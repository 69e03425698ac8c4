"""Copies of one run among results: the one that its records prove is used, since anybody can write a `run_id`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from llmperf import warn
from llmperf.errors import UserError
from llmperf.types import Result, Sheet
from llmperf.validation import Validator

Errors = Callable[[Path, Result], int]
"""Number of validation errors of a result."""


def distinct_results(results: Iterable[tuple[Path, Result]]) -> tuple[tuple[Path, Result], ...]:
    """The results of different runs; a warning on standard error names each copy, and runs with one identity."""

    def errors(path: Path, result: Result) -> int:
        validator = Validator()
        checked = validator.checked(validator.catalogue.kinds["result"], path, result)
        return sum(finding.severity == "error" for finding in checked.findings)

    return tuple(_distinct(list(results), errors, _recorded, warn))


def _recorded(path: Path) -> bool:
    """Check whether a result lies beside records."""
    return any((path.parent / "records").glob("rank-*.jsonl"))


def distinct_sheets(sheets: Sequence[Sheet], say: Callable[[str], None]) -> list[Sheet]:
    """Sheets of different runs, and those of other documents; `say` is called for copies and runs with one identity."""
    runs = {Path(sheet.source.place): sheet for sheet in sheets if isinstance(sheet.source.document, Result)}

    def errors(path: Path, _: Result) -> int:
        return sum(finding.severity == "error" for finding in runs[path].findings)

    def recorded(path: Path) -> bool:
        return runs[path].source.recorded or _recorded(path)

    results = [(path, sheet.source.document) for path, sheet in runs.items()]
    kept = {id(runs[path]) for path, _ in _distinct(results, errors, recorded, say)}
    return [sheet for sheet in sheets if not isinstance(sheet.source.document, Result) or id(sheet) in kept]


def _distinct(
    listed: Sequence[tuple[Path, Result]], errors: Errors, recorded: Callable[[Path], bool], say: Callable[[str], None]
) -> list[tuple[Path, Result]]:
    """One result of each run, in order; `say` gets a line for copies, and for different runs with one identity.

    Copies have the same records or figures. One beside its records and without an error is used, else one with the
    fewest errors, else the first. `errors` and `recorded` are called for copies alone.
    """
    marks = [tuple(_marks(result)) for _, result in listed]
    common = Counter(mark for own in marks for mark in own)
    contested = [place for place, own in enumerate(marks) if any(common[mark] > 1 for mark in own)]
    wrong = {place: errors(*listed[place]) for place in contested}
    ranks = {place: (bool(wrong[place]) or not recorded(listed[place][0]), wrong[place]) for place in contested}
    holders: dict[tuple[str, ...], int] = {}
    copies: dict[int, int] = {}
    for place in sorted(contested, key=lambda place: (ranks[place], place)):
        used = next((holders[mark] for mark in marks[place] if mark in holders), None)
        if used is not None:
            copies[place] = used
            continue  # its marks prove nothing: they may be those of two runs
        holders.update(dict.fromkeys(marks[place], place))
    grouped: dict[tuple[Path, bool], list[Path]] = {}
    for place, used in sorted(copies.items()):
        (path, copy), (preferred, original) = listed[place], listed[used]
        equal = replace(copy, findings=()) == replace(original, findings=())
        grouped.setdefault((preferred, equal), []).append(path)
    for (preferred, equal), (first, *others) in grouped.items():
        differ = f", but {'say' if others else 'says'} something else; that with agreeing records is preferred"
        which = f"{first} and {len(others)} more are" if others else f"{first} is"
        say(f"counted once: {which} the same run as {preferred}{'' if equal else differ}")
    kept = [each for place, each in enumerate(listed) if place not in copies]
    firsts: dict[str, Path] = {}
    for path, result in kept:
        if (first := firsts.setdefault(result.run_id, path)) is not path:
            say(f"{path} and {first} have one run_id, but are different runs: both are used")
    return kept


def one_run(first: Result, second: Result) -> bool:
    """Check whether two results are of one run, or claim to be."""
    return first.run_id == second.run_id or not set(_marks(first)).isdisjoint(_marks(second))


def refuse_shared_runs(sides: Mapping[str, Sequence[Result]]) -> None:
    """UserError if a run is on two sides, which are given by name."""
    marks = {name: {mark for result in results for mark in _marks(result)} for name, results in sides.items()}
    for ours, theirs in combinations(sides, 2):
        if both := [result for result in sides[ours] if not marks[theirs].isdisjoint(_marks(result))]:
            count = f"{len(both)} of the {len(sides[ours])} runs of {ours}"
            raise UserError(
                f"{ours} and {theirs}: expected each run on one side, found {count} in {theirs} too, such as"
                f" {both[0].run_id}"
            )


def _marks(result: Result) -> Iterator[tuple[str, ...]]:
    """Values that no two runs share: records and figures contain times, so no two are equal."""
    records = sorted(digest for name, digest in result.files.items() if name.startswith("records/"))
    metrics = result.metrics
    figures = (metrics.tokens_per_second_per_device, metrics.window_seconds, metrics.final_loss)
    if records:
        yield "records", *records
    if None not in figures:
        yield "figures", *map(repr, (*figures, metrics.first_loss, metrics.step_seconds))
    elif not records:
        yield "document", repr(replace(result, findings=()))
