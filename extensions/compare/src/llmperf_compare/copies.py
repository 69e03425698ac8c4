"""Copies of one run among results: which of them is used, and different runs that claim one identity.

Anybody can write a `run_id` or a digest into a file. So the identity alone does not make a copy, and of several copies
the one that its records prove is used, wherever it lies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from llmperf import warn
from llmperf.errors import UserError
from llmperf.types import OpenedSheet, Result
from llmperf.validation import Validator


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A result that was left out, because another one is of the same run."""

    path: Path
    used: Path
    """The one that is used instead."""
    equal: bool
    """Both say the same, apart from their findings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """Results of different runs, and what was noticed among them."""

    results: tuple[tuple[Path, Result], ...]
    """One of each run, in the order of the files."""
    copies: tuple[Copy, ...]
    collisions: tuple[tuple[Path, Path], ...]
    """Different runs with one `run_id`: both are used."""


def _recorded(path: Path) -> bool:
    return any((path.parent / "records").glob("rank-*.jsonl"))


def distinct(
    files: Iterable[tuple[Path, Result]],
    errors: Callable[[Path, Result], int],
    recorded: Callable[[Path], bool] = _recorded,
) -> Distinct:
    """The results by run, in order.

    Copies have the same records, or figures that are equal to the last digit. Of these, one is used that lies beside
    its records and has no validation error, else one with the fewest errors, else the first. `errors` counts the
    validation errors of a result, `recorded` says whether it lies beside records; both are called for copies alone.
    """
    listed = list(files)
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
    kept = [each for place, each in enumerate(listed) if place not in copies]
    firsts: dict[str, Path] = {}
    names = [(path, firsts.setdefault(result.run_id, path)) for path, result in kept]
    return Distinct(
        results=tuple(kept),
        copies=tuple(
            Copy(
                path=listed[place][0],
                used=listed[used][0],
                equal=replace(listed[place][1], findings=()) == replace(listed[used][1], findings=()),
            )
            for place, used in sorted(copies.items())
        ),
        collisions=tuple((path, first) for path, first in names if first is not path),
    )


def distinct_results(results: Iterable[tuple[Path, Result]]) -> tuple[tuple[Path, Result], ...]:
    """The results of different runs; a warning on standard error names each copy, and runs with one identity."""

    def errors(path: Path, result: Result) -> int:
        validator = Validator()
        checked = validator.checked(validator.catalogue.kinds["result"], path, result)
        return sum(finding.severity == "error" for finding in checked.findings)

    runs = distinct(results, errors)
    for line in notices(runs):
        warn(line)
    return runs.results


def distinct_sheets(opened: Sequence[OpenedSheet], say: Callable[[str], None]) -> list[OpenedSheet]:
    """Sheets of different runs, and those of other documents; `say` is called for copies and runs with one identity."""
    runs = {Path(each.file): each for each in opened if isinstance(each.sheet.source.document, Result)}

    def errors(path: Path, _: Result) -> int:
        return sum(finding.severity == "error" for finding in runs[path].sheet.findings)

    found = distinct(
        [(path, each.sheet.source.document) for path, each in runs.items()], errors, lambda path: runs[path].recorded
    )
    for line in notices(found):
        say(line)
    kept = {id(runs[path]) for path, _ in found.results}
    return [each for each in opened if not isinstance(each.sheet.source.document, Result) or id(each) in kept]


def notices(found: Distinct) -> Iterator[str]:
    """A line for the copies of each run and for each collision, which names both files."""
    copies: dict[tuple[Path, bool], list[Path]] = {}
    for copy in found.copies:
        copies.setdefault((copy.used, copy.equal), []).append(copy.path)
    for (used, equal), (first, *others) in copies.items():
        say = "say" if others else "says"
        differ = "" if equal else f", but {say} something else; that with agreeing records is preferred"
        which = f"{first} and {len(others)} more are" if others else f"{first} is"
        yield f"counted once: {which} the same run as {used}{differ}"
    for path, first in found.collisions:
        yield f"{path} and {first} have one run_id, but are different runs: both are used"


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
