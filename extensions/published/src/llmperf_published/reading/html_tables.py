"""HTML tables inside Markdown, as rows of Markdown cells.

The reader knows tables, formatting tags and `rowspan`; it is no HTML parser. Its time and its cells grow linearly with
the length of the text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

MAX_CELLS = 200_000
"""Cells of a table above which `rowspan` and `colspan` are ignored."""

_BEGIN = re.compile(r"\s*(?:<(?:div|center|p)\b[^<>]{0,200}>\s*)*<table\b", re.IGNORECASE)
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]{0,10})(\s[^<>]{0,400})?/?>")
_SPAN = re.compile(r"\b(row|col)span\s*=\s*[\"']?(\d{1,3})(?!\d)", re.IGNORECASE)
_SPECIAL = re.compile(r"[\\`*|<\[]|_(?=_)|(?<=_)_")
_DROPPED = frozenset(
    ["tbody", "tfoot", "caption", "colgroup", "col", "div", "center", "p", "span", "font", "b", "strong", "i",
     "em", "u", "s", "small", "sub", "sup", "code", "a", "br", "td", "th"]
)  # fmt: skip
"""Tags that leave only their text; tags that are not known stay text."""


@dataclass
class HtmlTable:
    """The rows of a table, and the text outside its cells."""

    rows: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    """Line number and cells of each row; the rows of a header are one."""
    outside: list[tuple[int, str]] = field(default_factory=list)
    """Line number and text."""
    _cells: list[str] = field(default_factory=list)
    _reaching: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Cells of earlier rows that reach further down: column to the number of further rows and the text."""
    _total: int = 0
    _header: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    """The rows of the header so far; cells that reach over several columns are repeated in each."""
    _in_header: bool = False
    _body: bool = False
    """A row of the body was read."""

    def _add_cell(self, raw: str, rows: int = 1, columns: int = 1) -> None:
        """Append a cell. In further rows its text is repeated; further columns are empty."""
        text = _SPECIAL.sub(lambda match: "\\" + match[0], " ".join(html.unescape(raw).split()))
        self._fill()
        if self._total + rows * columns > MAX_CELLS:
            rows = columns = 1
        for column in range(columns):
            repeated = text if column == 0 or self._in_header else ""
            if rows > 1:
                self._reaching[len(self._cells)] = (rows - 1, repeated)
            self._cells.append(repeated)
        self._total += rows * columns

    def _fill(self) -> None:
        """Append the cells of earlier rows that belong here."""
        while len(self._cells) in self._reaching:
            rows, text = self._reaching.pop(len(self._cells))
            if rows > 1:
                self._reaching[len(self._cells)] = (rows - 1, text)
            self._cells.append(text)

    def _end_row(self, line: int) -> None:
        """Add the row that began at a line, unless it has no cells of its own."""
        if self._cells:
            self._fill()
            row = (line, tuple(self._cells))
            if not self._in_header or self._body:
                self._end_header()
                self.rows.append(row)
            elif len(row[1]) > 1 and len(set(row[1])) == 1:
                self.outside.append((line, row[1][0]))  # a title above all columns
            else:
                self._header.append(row)
        self._cells = []

    def _end_header(self) -> None:
        """Add the rows of the header as one row: `With CP` above `TP` is `With CP TP`."""
        if self._header and not self._body:
            width = max(len(cells) for _, cells in self._header)
            columns = zip(*(cells + ("",) * (width - len(cells)) for _, cells in self._header), strict=True)
            names = (" ".join(filter(None, dict.fromkeys(column))) for column in columns)
            self.rows.append((self._header[0][0], tuple(names)))
        self._body = True


def begins_html_table(line: str) -> bool:
    """Check whether a line begins with the tag of a table."""
    return "<" in line and _BEGIN.match(line) is not None


def html_table(lines: Sequence[str], first: int) -> HtmlTable:
    """The table in these lines; `first` is the number of the first line."""
    text = "\n".join(lines)
    table = HtmlTable()
    cell: list[str] | None = None
    rows = columns = begin = 1
    end, line = 0, first
    for match in _TAG.finditer(text):
        between = text[end : match.start()]
        if cell is not None:
            cell.append(between)
        elif between.strip():
            table.outside.append((line, " ".join(between.split())))
        line += between.count("\n")
        name, closing, end = match[2].lower(), bool(match[1]), match.end()
        if name in ("td", "th", "tr", "table") and cell is not None:
            table._add_cell("".join(cell), rows, columns)
            cell = None
        if name in ("tr", "table"):
            table._end_row(begin)
            begin = line
        elif name in ("td", "th") and not closing:
            spans = {kind.lower(): int(count) for kind, count in _SPAN.findall(match[3] or "")}
            cell, rows, columns = [], max(spans.get("row", 1), 1), max(spans.get("col", 1), 1)
        elif name == "thead":
            table._end_row(begin)
            table._in_header = not closing
        elif name == "br" and cell is not None:
            cell.append(" ")
        elif name not in _DROPPED:
            if cell is not None:
                cell.append(match[0])
            else:
                table.outside.append((line, match[0]))
        line += match[0].count("\n")
    rest = text[end:]
    if cell is not None:
        table._add_cell("".join([*cell, rest]))
    elif rest.strip():
        table.outside.append((line, " ".join(rest.split())))
    table._end_row(begin)
    table._end_header()
    return table
