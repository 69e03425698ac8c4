"""A table as plain text that fits a given width: cells wrap, and the least important columns are left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmperf.types.sheet import Column

MAX_LINES = 4
"""Most lines of a cell that wraps."""
CUT = "..."
GAP = "  "
"""Between two columns."""
_JOINT = re.compile(r"(?<=[_,-])(?=\w)")
"""Places where a long name may be broken."""
_VALUE = re.compile(r"\s*\S.*?\s{2,}")
"""A label before a value."""
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
Paint = Callable[[str, str], str]
"""Takes a cell and one line of it, and gives the line in the colour of the cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """A table that was laid out."""

    text: str
    """Its lines."""
    left_out: tuple[str, ...]
    """Titles of the columns for which there was no room."""
    cut: bool
    """A cell was cut off after MAX_LINES."""


def laid_out(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    width: int | None,
    paint: Paint | None = None,
    one_line: bool = False,
) -> TextTable:
    """The table within `width` terminal columns, or on one line a row where that is None.

    With `one_line`, cells are cut off in place of being wrapped.
    """
    max_lines = 1 if one_line else MAX_LINES
    natural = [max(map(_width, [column.title, *cells])) for column, cells in _by_column(columns, rows)]
    kept = list(range(len(columns)))
    widths = natural
    if width is not None:
        least = [_least(column, cells) for column, cells in _by_column(columns, rows)]
        silent = {index for index in range(len(columns)) if all(row[index] in ("-", "/", "") for row in rows)}
        kept = list(range(len(columns)))
        while len(kept) > 1 and sum(least[index] for index in kept) + len(GAP) * (len(kept) - 1) > width:
            kept.remove(max(kept, key=lambda index: (index in silent, columns[index].importance)))
        widths = list(least)
        spare = width - sum(least[index] for index in kept) - len(GAP) * (len(kept) - 1)
        while spare > 0 and (narrow := [index for index in kept if widths[index] < natural[index]]):
            widths[max(narrow, key=lambda index: natural[index] / widths[index])] += 1
            spare -= 1
    lines = list(_lines([columns[index].title for index in kept], [widths[index] for index in kept], columns, kept))
    lines.append(GAP.join("-" * widths[index] for index in kept))
    for row in rows:
        lines += _lines(
            [row[index] for index in kept], [widths[index] for index in kept], columns, kept, paint, max_lines
        )
    left_out = tuple(column.title for index, column in enumerate(columns) if index not in kept)
    cut = any(len(wrapped_cell(row[index], widths[index])) > max_lines for row in rows for index in kept)
    return TextTable(text="\n".join(lines), left_out=left_out, cut=cut)


def _by_column(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Iterator[tuple[Column, list[str]]]:
    return ((column, [row[index] for row in rows]) for index, column in enumerate(columns))


def _least(column: Column, cells: Sequence[str]) -> int:
    """Width to which a column may be narrowed; its title wraps between words in any case."""
    title = max((_width(part) for word in column.title.split() for part in _JOINT.split(word)), default=0)
    content = max(map(_width, cells), default=0)
    return max(title, content if column.wraps is None else min(content, column.wraps))


def _lines(
    cells: Sequence[str],
    widths: Sequence[int],
    columns: Sequence[Column],
    kept: Sequence[int],
    paint: Paint | None = None,
    max_lines: int = MAX_LINES,
) -> Iterator[str]:
    """One row, over several lines where cells wrap."""
    wrapped = [
        _first_lines(wrapped_cell(cell, width), width, max_lines) for cell, width in zip(cells, widths, strict=True)
    ]
    for number in range(max(map(len, wrapped), default=0)):
        parts = []
        for cell, lines, width, index in zip(cells, wrapped, widths, kept, strict=True):
            line = lines[number] if number < len(lines) else ""
            space = " " * (width - _width(line))
            shown = paint(cell, line) if paint and line else line
            parts.append(space + shown if columns[index].right else shown + space)
        yield GAP.join(parts).rstrip()


def _first_lines(lines: list[str], width: int, max_lines: int) -> list[str]:
    """The first lines of a cell; what is cut off is marked."""
    if len(lines) <= max_lines:
        return lines
    last = lines[max_lines - 1]
    while _width(last) > width - len(CUT):
        last = last[:-1]
    return [*lines[: max_lines - 1], last + CUT]


def wrapped_cell(text: str, width: int) -> list[str]:
    """Lines of at most `width` terminal columns: broken between words, else after `_`, `-` or `,`, else anywhere."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if _width(joined) <= width:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        for part in _JOINT.split(word):
            if lines[-1] and _width(lines[-1] + part) > width:
                lines.append("")
            for char in part:
                if _width(lines[-1]) + (0 if char < " " else _width(char)) > width:
                    lines.append("")
                lines[-1] += char
    return lines


def fitted(text: str, width: int | None) -> str:
    """Lines of at most `width` terminal columns: longer ones are broken, and go on below the beginning of their value.

    The value of `name  value` begins after the first two spaces; other lines go on two columns further in.
    """
    if width is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in _fitted_line(line, width))


def _fitted_line(line: str, width: int) -> Iterator[str]:
    if _width(line) <= width:
        yield line
        return
    match = _VALUE.match(line)
    head = match[0] if match and _width(match[0]) <= width // 2 else re.match(" *", line)[0]  # type: ignore[index]
    hang = _width(head) if head.strip() else len(head) + 2
    parts = wrapped_cell(line[len(head) :], max(width - hang, 1))
    yield head + parts[0]
    yield from (" " * hang + part for part in parts[1:])


def _width(text: str) -> int:
    """Terminal columns of text; a Chinese character has two, a colour none."""
    text = _COLOUR.sub("", text) if "\x1b" in text else text
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth  # with tables of all characters

    return max(wcswidth(text), 0)


BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = "_.-=+*%#"
"""Levels where the output cannot show blocks."""
LEAST_RANGE = 0.02
"""Share of the largest value below which differences are not enlarged further."""


def sparkline(values: Sequence[float], width: int = 12, encoding: str | None = "utf-8") -> str:
    """The last `width` values from the least to the largest; a range below LEAST_RANGE is drawn as flat as it is."""
    shown = values[-width:]
    if len(shown) < 2:
        return ""
    levels = BLOCKS if shows_blocks(encoding) else ASCII
    low, high = min(shown), max(shown)
    span = max(high - low, LEAST_RANGE * abs(high))
    if span == 0:
        return levels[0] * len(shown)
    base = (high + low - span) / 2
    return "".join(levels[min(len(levels) - 1, int((value - base) / span * len(levels)))] for value in shown)


def shows_blocks(encoding: str | None) -> bool:
    """Check whether text in this encoding can contain BLOCKS."""
    try:
        BLOCKS.encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True
