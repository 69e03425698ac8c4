"""A Markdown text as a flat list of blocks, each with its line.

Published documents are untidy: lists are indented at will, headings stand inside bullets, tables lack their delimiter
row or have more cells than headers. CommonMark then makes code blocks or paragraphs of them, or drops the cells. So
lines are told apart by how they begin, nesting is not looked at, and a row keeps every cell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from string import whitespace
from typing import Literal

from llmperf_published.reading.cell_text import is_delimiter_row, split_cells

BlockKind = Literal["heading", "item", "text", "quote", "code", "table"]

_MARKER = re.compile(r"\s*(?:[-*+•·]|\d{1,3}\s?[.)、．])\s+|\s*(?:\d{1,3}[、．])")
_HEADING = re.compile(r"\s{0,20}(#{1,6})(?:\s+|(?=[^\s#]))(.*)")
_FENCE = re.compile(r"\s*(```+|~~~+)")


@dataclass(slots=True)
class Block:
    """One block. `text` goes on over several lines where these follow without a marker of their own."""

    kind: BlockKind
    line: int
    """From 1."""
    text: str = ""
    rows: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """Of a table: line and raw cells, the headers first, without the delimiter row."""


def blocks(lines: Sequence[str]) -> list[Block]:
    """The blocks of a text that was split into lines."""
    found: list[Block] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        if fence := _FENCE.match(line):
            block, number = _code(lines, number, fence[1][0])
        elif _begins_table(lines, number):
            block, number = _table(lines, number)
        else:
            _add_line(found, line, number, before_blank=number == 0 or not lines[number - 1].strip())
            number += 1
            continue
        found.append(block)
    return found


def _code(lines: Sequence[str], start: int, mark: str) -> tuple[Block, int]:
    """A fenced block, which goes on to the end if nothing closes it."""
    end = start + 1
    while end < len(lines) and not (lines[end].strip().startswith(mark * 3) and not lines[end].strip(mark + " \t")):
        end += 1
    info = lines[start].strip().lstrip(mark).strip()
    return Block("code", start + 1, "\n".join([*[info] * bool(info), *lines[start + 1 : end]])), end + 1


def _begins_table(lines: Sequence[str], number: int) -> bool:
    """A line with cells above a delimiter row, or two lines in a row that begin with a bar."""
    line, after = lines[number], lines[number + 1] if number + 1 < len(lines) else ""
    if "|" not in line:
        return False
    return is_delimiter_row(after) or (line.lstrip().startswith("|") and after.lstrip().startswith("|"))


def _table(lines: Sequence[str], start: int) -> tuple[Block, int]:
    """From the headers to the last line that has cells."""
    rows = [(start + 1, split_cells(lines[start]))]
    end = start + 1
    barred = lines[start].lstrip().startswith("|")
    if is_delimiter_row(lines[end]):
        end += 1
    while end < len(lines) and _is_row(lines[end], barred):
        rows.append((end + 1, split_cells(lines[end])))
        end += 1
    return Block("table", start + 1, rows=tuple(rows)), end


def _is_row(line: str, barred: bool) -> bool:
    if line.lstrip().startswith("|"):
        return True
    return not barred and "|" in line and not _MARKER.match(line) and not line.lstrip().startswith(("#", ">"))


def _add_line(found: list[Block], line: str, number: int, before_blank: bool) -> None:
    """Enter a line as a block of its own, or as the continuation of the one before."""
    text = line.strip()
    if not text:
        return
    inner = line[marker.end() :] if (marker := _MARKER.match(line)) else line
    if heading := _HEADING.match(inner):
        found.append(Block("heading", number + 1, heading[2].rstrip(f"{whitespace}\u00a0\u3000#").strip()))
    elif marker:
        found.append(Block("item", number + 1, inner.strip()))
    elif text.startswith(">"):
        _add_quote(found, text.lstrip("> ").strip(), number)
    elif found and not before_blank and found[-1].kind in ("item", "text", "quote"):
        found[-1].text += "\n" + text
    else:
        found.append(Block("text", number + 1, text))


def _add_quote(found: list[Block], text: str, number: int) -> None:
    if found and found[-1].kind == "quote" and found[-1].line + found[-1].text.count("\n") + 1 == number + 1:
        found[-1].text += "\n" + text
    else:
        found.append(Block("quote", number + 1, text))


def in_one_line(text: str) -> str:
    """A block's text with its line ends as spaces."""
    return " ".join(text.split())
