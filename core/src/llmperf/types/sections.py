"""Sections of results: optional figures of an extension, with how they are computed, checked and shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmperf.types.frozen import dataclass

if TYPE_CHECKING:
    from llmperf.types.plan import Plan
    from llmperf.types.result import Result
    from llmperf.types.sheet import Row


def _no_rows(figures: Any, result: Result) -> Iterable[Row]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSection:
    """Optional figures of results, under `sections.NAME` of `result.json`."""

    name: str
    """Lower-case letters, digits and underscores, a letter first."""
    figures: type
    """A frozen dataclass with fields that JSON can hold. It is the schema of the section."""
    compute: Callable[[Plan, Result, Path], Any]
    """The figures, or None, of a plan, of its result without sections, and of the records in its run folder. `llmperf
    validate` computes them again, so that they must follow from these alone."""
    rows: Callable[[Any, Result], Iterable[Row]] = _no_rows
    """Rows of the sheet for figures and their result; none unless given."""

    def of(self, result: Result) -> Any:
        """The figures in a result; None if it has none, or values that do not fit `figures`, which LP016 reports."""
        import msgspec

        try:
            return msgspec.convert(result.sections[self.name], type=self.figures)
        except (KeyError, msgspec.ValidationError):
            return None
