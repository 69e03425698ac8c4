"""An answer for people: what was compared, the answers, a table, warnings and notes; in Markdown, or for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from llmperf.reporting.safe_text import markdown_text
from llmperf.types.sheet import Column

Tone = Literal["", "faster", "slower", "failed", "warning", "context"]
"""Meaning of a line, which determines its colour."""
MAX_LINE = 1000
"""Characters of a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One sentence."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Answer of a command. Texts are in the language of the page and harmless for a terminal."""

    title: str
    """One line."""
    about: tuple[Line, ...] = ()
    """The compared sides, before the answers."""
    answers: tuple[Line, ...] = ()
    columns: tuple[Column, ...] = ()
    """Columns of the table; empty for none."""
    rows: tuple[tuple[str, ...], ...] = ()
    groups: tuple[tuple[str, int], ...] = ()
    """Heading of each group of rows, and the number of its rows; empty for a table without groups."""
    warnings: tuple[Line, ...] = ()
    notes: tuple[Line, ...] = ()
    """Notes on how the figures were made."""


def markdown_page(page: Page, language: str) -> str:
    """The page as one Markdown document with one heading of the first level."""
    from llmperf.reporting.markdown import table

    def listed(lines: Sequence[Line]) -> list[str]:
        return [f"- {markdown_text(line.text, MAX_LINE)}" for line in lines]

    headers, right = [column.title for column in page.columns], [column.right for column in page.columns]
    parts = [[f"# {markdown_text(page.title, MAX_LINE)}"], *map(listed, (page.answers, page.warnings, page.about))]
    first = 0
    for title, count in page.groups:
        rows = page.rows[first : first + count]
        parts += [[f"## {markdown_text(title, MAX_LINE)}"], list(table(headers, rows, language, right))]
        first += count
    if page.columns and not page.groups:
        parts.append(list(table(headers, page.rows, language, right)))
    parts.append(listed(page.notes))
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"
