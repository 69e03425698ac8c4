"""An answer for people: what was compared, the answers, a table, warnings and notes; in Markdown, or for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import click
from llmperf import page_width, painted
from llmperf.reporting import Column, laid_out, left_out_text, markdown_table, markdown_text, word, wrapped_cell

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

    def listed(lines: Sequence[Line]) -> list[str]:
        return [f"- {markdown_text(line.text, MAX_LINE)}" for line in lines]

    headers, right = [column.title for column in page.columns], [column.right for column in page.columns]
    parts = [[f"# {markdown_text(page.title, MAX_LINE)}"], *map(listed, (page.answers, page.warnings, page.about))]
    first = 0
    for title, count in page.groups:
        rows = page.rows[first : first + count]
        parts += [[f"## {markdown_text(title, MAX_LINE)}"], list(markdown_table(headers, rows, language, right))]
        first += count
    if page.columns and not page.groups:
        parts.append(list(markdown_table(headers, page.rows, language, right)))
    parts.append(listed(page.notes))
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def print_page(page: Page, wanted: str, language: str, wide: bool = False) -> None:
    """A page as text within the width of the terminal, or as Markdown."""
    if wanted == "markdown":
        click.echo(markdown_page(page, language), nl=False)
        return
    width, mark = page_width(), "：" if language == "zh" else ": "

    def block(lines: Sequence[Line]) -> list[str]:
        """Lines in the colour of their meaning, broken between words where the terminal is narrower."""
        shown = []
        for line in lines:
            text = f"{word('warning', language)}{mark}{line.text}" if line.tone == "warning" else line.text
            parts = [text] if width is None else wrapped_cell(text, width)
            if line.tone == "warning":
                prefix, colon, rest = parts[0].partition(mark)
                shown += [f"{painted('warning', prefix)}{colon}{rest}", *parts[1:]]
            else:
                shown += [painted(line.tone, part) for part in parts]
        return shown

    table = _page_table(page, page_width(wide), language) if page.columns else []
    blocks = [block(page.about), block(page.answers), table, block(page.warnings), block(page.notes)]
    click.echo("\n\n".join("\n".join(lines) for lines in blocks if lines))


def _page_table(page: Page, width: int | None, language: str) -> list[str]:
    """The lines of the table of a page, with a heading above each of its groups."""

    def fitting(text: str) -> list[str]:
        return [text] if width is None else wrapped_cell(text, width)

    columns = [replace(column, title=word(column.title, language)) for column in page.columns]
    table = laid_out(columns, page.rows, width, painted, one_line=bool(page.groups))
    lines = table.text.split("\n")
    if page.groups:
        lines, rows = lines[: -len(page.rows)], lines[-len(page.rows) :]
        for title, count in page.groups:
            lines += ["", *(click.style(part, bold=True) for part in fitting(title)), *rows[:count]]
            rows = rows[count:]
    for line in left_out_text(table, language, "--wide, --format json"):
        lines += ["", *(painted("context", part) for part in fitting(line))]
    return lines
