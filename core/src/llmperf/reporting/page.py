"""An answer for people: what was compared, the answers, a table, warnings and notes; in Markdown, or for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from llmperf.reporting.safe_text import markdown_text
from llmperf.reporting.words import word
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
    parts: list[list[str]] = [[f"# {markdown_text(page.title, MAX_LINE)}"]]
    parts += [_list(lines) for lines in (page.answers, page.warnings, page.about)]
    if page.groups:
        first = 0
        for title, count in page.groups:
            rows = page.rows[first : first + count]
            parts += [[f"## {markdown_text(title, MAX_LINE)}"], list(_table(page.columns, rows, language))]
            first += count
    elif page.columns:
        parts.append(list(_table(page.columns, page.rows, language)))
    parts.append(_list(page.notes))
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _list(lines: Sequence[Line]) -> list[str]:
    return [f"- {markdown_text(line.text, MAX_LINE)}" for line in lines]


def _table(columns: Sequence[Column], rows: Sequence[Sequence[str]], language: str) -> Iterator[str]:
    yield f"| {' | '.join(markdown_text(word(column.title, language)) for column in columns)} |"
    yield "|" + "".join(" ---: |" if column.right else " --- |" for column in columns)
    yield from (f"| {' | '.join(map(markdown_text, row))} |" for row in rows)
