"""Copies of results: a run counts once, however often its result was copied."""

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


def distinct(files: Iterable[tuple[Path, Result]]) -> Distinct:
    """Results by run, in order. A copy has the same identity, the same records or, without these, the same figures."""
    seen: dict[tuple[str, ...], Path] = {}
    results, copies = [], []
    for path, result in files:
        marks = list(_marks(result))
        first = next((seen[mark] for mark in marks if mark in seen), None)
        if first is None:
            results.append(result)
        else:
            copies.append((path, first))
        for mark in marks:
            seen.setdefault(mark, first or path)
    return Distinct(results=tuple(results), copies=tuple(copies))


def one_run(first: Result, second: Result) -> bool:
    """Whether two results are of one run."""
    return not set(_marks(first)).isdisjoint(_marks(second))


def on_both(ours: Iterable[Result], theirs: Iterable[Result]) -> tuple[Result, ...]:
    """The results of `ours` whose run is also among `theirs`."""
    marks = {mark for result in theirs for mark in _marks(result)}
    return tuple(result for result in ours if not marks.isdisjoint(_marks(result)))


def _marks(result: Result) -> Iterator[tuple[str, ...]]:
    """Values that no two runs share: records contain times, so no two are equal."""
    yield "run", result.run_id
    records = sorted(digest for name, digest in result.files.items() if name.startswith("records/"))
    metrics = result.metrics
    figures = (metrics.tokens_per_second_per_device, metrics.window_seconds, metrics.final_loss)
    if records:
        yield "records", *records
    elif None not in figures:
        yield "figures", *map(repr, figures)
