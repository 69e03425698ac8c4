"""Sections of results that are installed fit their types; the others are kept, which LP905 notes."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.errors import UserError
from llmperf.files.json_files import convert
from llmperf.results.sections import known_sections
from llmperf.types import Result, Text, Violation
from llmperf.validation.reading import pointer, shown
from llmperf.validation.violations import rule


@rule("LP016", "error", "The figures of a section are those that its package defines")
def sections_fit(result: Result) -> Iterator[Violation]:
    """Each section of an installed package has the fields of its dataclass."""
    known = known_sections().by_name
    for name, figures in result.sections.items():
        if name in known:
            try:
                convert(figures, known[name].section.figures, "figures")
            except UserError as error:
                package = shown(known[name].owner.distribution)
                found = Text("found others: {}", shown(str(error)))
                yield pointer(["sections", name]), Text("expected figures as {} defines them, {}", package, found)
