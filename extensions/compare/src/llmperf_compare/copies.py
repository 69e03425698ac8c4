"""Copies of one run among results: which of them is used, and different runs that claim one identity.

Anybody can write a `run_id` or a digest into a file. So the identity alone does not make a copy, and of several copies
the one that its records prove is used, wherever it lies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from llmperf.runfolder.filenames import record_files
from llmperf.types.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A result that was left out, because another one is of the same run."""

    path: Path
    used: Path
    """The one that is used instead."""
    equal: bool
    """Whether both say the same, apart from their findings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """Results of different runs, and what was noticed among them."""

    results: tuple[tuple[Path, Result], ...]
    """One of each run, in the order of the files."""
    copies: tuple[Copy, ...]
    collisions: tuple[tuple[Path, Path], ...]
    """Different runs with one `run_id`: both are used."""


def _has_records(path: Path) -> bool:
    return bool(record_files(path.parent))


def distinct(
    files: Iterable[tuple[Path, Result]],
    errors: Callable[[Path, Result], int],
    recorded: Callable[[Path], bool] = _has_records,
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
    ranks = {place: _rank(*listed[place], errors, recorded) for place in contested}
    holders: dict[tuple[str, ...], int] = {}
    copies: dict[int, int] = {}
    for place in sorted(contested, key=lambda place: (ranks[place], place)):
        used = next((holders[mark] for mark in marks[place] if mark in holders), None)
        if used is not None:
            copies[place] = used
            continue  # its marks prove nothing: they may be those of two runs
        holders.update(dict.fromkeys(marks[place], place))
    kept = [each for place, each in enumerate(listed) if place not in copies]
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
        collisions=tuple(_collisions(kept)),
    )


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
    """Whether two results are of one run, or claim to be."""
    return first.run_id == second.run_id or not set(_marks(first)).isdisjoint(_marks(second))


def on_both(ours: Iterable[Result], theirs: Iterable[Result]) -> tuple[Result, ...]:
    """The results of `ours` whose run is also among `theirs`."""
    marks = {mark for result in theirs for mark in _marks(result)}
    return tuple(result for result in ours if not marks.isdisjoint(_marks(result)))


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


def _rank(
    path: Path, result: Result, errors: Callable[[Path, Result], int], recorded: Callable[[Path], bool]
) -> tuple[bool, int]:
    """Low for the result to prefer."""
    count = errors(path, result)
    return bool(count) or not recorded(path), count


def _collisions(kept: Sequence[tuple[Path, Result]]) -> Iterator[tuple[Path, Path]]:
    firsts: dict[str, Path] = {}
    for path, result in kept:
        first = firsts.setdefault(result.run_id, path)
        if first is not path:
            yield path, first
