"""A table as plain text that fits a given width: cells wrap, and the least important columns are left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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
    """The table within `width` terminal columns, or a line a row; with `one_line`, cells are cut off."""
    contents = [[row[place] for row in rows] for place in range(len(columns))]
    kept, widths = _widths(columns, contents, width)
    cut, lines = False, list[str]()
    for number, cells in enumerate([[column.title for column in columns], *rows]):
        most = 1 if one_line and number else MAX_LINES
        wrapped = {place: wrapped_cell(cells[place], widths[place]) for place in kept}
        for place, parts in wrapped.items():
            if len(parts) > most:
                last = parts[most - 1]
                while columns_of(last) > widths[place] - len(CUT):
                    last = last[:-1]
                cut, parts[most - 1 :] = cut or number > 0, [last + CUT]
        for line in range(max(map(len, wrapped.values()), default=0)):
            shown = []
            for place, parts in wrapped.items():
                part = parts[line] if line < len(parts) else ""
                space = " " * (widths[place] - columns_of(part))
                part = paint(cells[place], part) if paint and part and number else part
                shown.append(space + part if columns[place].right else part + space)
            lines.append(GAP.join(shown).rstrip())
        if number == 0:
            lines.append(GAP.join("-" * widths[place] for place in kept))
    left_out = tuple(column.title for place, column in enumerate(columns) if place not in kept)
    return TextTable(text="\n".join(lines), left_out=left_out, cut=cut)


def _widths(
    columns: Sequence[Column], contents: Sequence[Sequence[str]], width: int | None
) -> tuple[list[int], list[int]]:
    """The places of the columns for which there is room, and the width of each column."""
    natural, least, kept = list[int](), list[int](), list(range(len(columns)))
    for column, cells in zip(columns, contents, strict=True):
        content = max(map(columns_of, cells), default=0)
        title = max((columns_of(part) for word in column.title.split() for part in _JOINT.split(word)), default=0)
        natural.append(max(columns_of(column.title), content))
        least.append(max(title, content if column.wraps is None else min(content, column.wraps)))
    if width is None:
        return kept, natural
    silent = {place for place, cells in enumerate(contents) if all(cell in ("-", "/", "") for cell in cells)}
    while len(kept) > 1 and sum(least[place] for place in kept) + len(GAP) * (len(kept) - 1) > width:
        kept.remove(max(kept, key=lambda place: (place in silent, columns[place].importance)))
    spare = width - sum(least[place] for place in kept) - len(GAP) * (len(kept) - 1)
    while spare > 0 and (narrow := [place for place in kept if least[place] < natural[place]]):
        least[max(narrow, key=lambda place: natural[place] / least[place])] += 1
        spare -= 1
    return kept, least


def wrapped_cell(text: str, width: int) -> list[str]:
    """Lines of at most `width` terminal columns: broken between words, else after `_`, `-` or `,`, else anywhere."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if columns_of(joined) <= width:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        for part in _JOINT.split(word):
            if lines[-1] and columns_of(lines[-1] + part) > width:
                lines.append("")
            for char in part:
                if columns_of(lines[-1]) + (0 if char < " " else columns_of(char)) > width:
                    lines.append("")
                lines[-1] += char
    return lines


def fitted(text: str, width: int | None) -> str:
    """Lines of at most `width` terminal columns: longer ones go on below the value of `name  value`."""
    lines = []
    for line in text.split("\n"):
        if width is None or columns_of(line) <= width:
            lines.append(line)
            continue
        match = _VALUE.match(line)
        head = match[0] if match and columns_of(match[0]) <= width // 2 else line[: len(line) - len(line.lstrip(" "))]
        hang = columns_of(head) if head.strip() else len(head) + 2
        first, *rest = wrapped_cell(line[len(head) :], max(width - hang, 1))
        lines += [head + first, *(" " * hang + part for part in rest)]
    return "\n".join(lines)


def columns_of(text: str) -> int:
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
    try:
        BLOCKS.encode(encoding or "ascii")
        levels = BLOCKS
    except (LookupError, UnicodeEncodeError):
        levels = ASCII
    low, high = min(shown), max(shown)
    span = max(high - low, LEAST_RANGE * abs(high))
    if span == 0:
        return levels[0] * len(shown)
    base = (high + low - span) / 2
    return "".join(levels[min(len(levels) - 1, int((value - base) / span * len(levels)))] for value in shown)
