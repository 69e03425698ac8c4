"""Results that tell of one run: however often it was copied, it counts once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from llmperf.types.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """Results of different runs, and the copies that were left out of them."""

    results: tuple[Result, ...]
    """The first of each run."""
    copies: tuple[tuple[Path, Path], ...]
    """Each copy, and the result that it is a copy of."""


def distinct(found: Iterable[tuple[Path, Result]]) -> Distinct:
    """Results by run, in order; a copy is told by its identity, its records, or where it has none its figures."""
    seen: dict[tuple[str, ...], Path] = {}
    results, copies = [], []
    for path, result in found:
        marks = list(_marks(result))
        first = next((seen[mark] for mark in marks if mark in seen), None)
        if first is None:
            results.append(result)
        else:
            copies.append((path, first))
        for mark in marks:
            seen.setdefault(mark, first or path)
    return Distinct(results=tuple(results), copies=tuple(copies))


def one_run(one: Result, other: Result) -> bool:
    """Whether two results tell of one run."""
    return not set(_marks(one)).isdisjoint(_marks(other))


def on_both(ours: Iterable[Result], theirs: Iterable[Result]) -> tuple[Result, ...]:
    """Those of the first results that tell of a run that is among the others too."""
    marks = {mark for one in theirs for mark in _marks(one)}
    return tuple(one for one in ours if not marks.isdisjoint(_marks(one)))


def _marks(result: Result) -> Iterator[tuple[str, ...]]:
    """What no two runs have in common; records hold times, and are never twice the same."""
    yield "run", result.run_id
    records = sorted(digest for name, digest in result.files.items() if name.startswith("records/"))
    metrics = result.metrics
    figures = (metrics.tokens_per_second_per_device, metrics.window_seconds, metrics.final_loss)
    if records:
        yield "records", *records
    elif None not in figures:
        yield "figures", *map(repr, figures)
