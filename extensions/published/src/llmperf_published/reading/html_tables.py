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


@dataclass
class _Row:
    """The row that is being read, and the cells of earlier rows that reach into it."""

    line: int = 1
    cells: list[str] = field(default_factory=list)
    reaching: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Column to the number of further rows and the text."""
    total: int = 0
    header: list[tuple[str, ...]] = field(default_factory=list)
    """The rows of the header so far; cells that reach over several columns are repeated in each."""
    header_line: int = 1
    in_header: bool = False
    body: bool = False
    """A row of the body was read."""

    def add(self, text: str, rows: int, columns: int) -> None:
        """Append a cell. In further rows its text is repeated; further columns are empty."""
        self.fill()
        if self.total + rows * columns > MAX_CELLS:
            rows = columns = 1
        for column in range(columns):
            repeated = text if column == 0 or self.in_header else ""
            if rows > 1:
                self.reaching[len(self.cells)] = (rows - 1, repeated)
            self.cells.append(repeated)
        self.total += rows * columns

    def fill(self) -> None:
        """Append the cells of earlier rows that belong here."""
        while len(self.cells) in self.reaching:
            rows, text = self.reaching.pop(len(self.cells))
            if rows > 1:
                self.reaching[len(self.cells)] = (rows - 1, text)
            self.cells.append(text)

    def end(self, table: HtmlTable) -> None:
        """Add the row to the table, unless it has no cells of its own."""
        if self.cells:
            self.fill()
            if self.in_header and not self.body and len(self.cells) > 1 and len(set(self.cells)) == 1:
                table.outside.append((self.line, self.cells[0]))  # a title above all columns
            elif self.in_header and not self.body:
                self.header_line = self.header_line if self.header else self.line
                self.header.append(tuple(self.cells))
            else:
                self.end_header(table)
                table.rows.append((self.line, tuple(self.cells)))
        self.cells = []

    def end_header(self, table: HtmlTable) -> None:
        """Add the rows of the header as one row: `With CP` above `TP` is `With CP TP`."""
        if self.header and not self.body:
            width = max(map(len, self.header))
            columns = zip(*(row + ("",) * (width - len(row)) for row in self.header), strict=True)
            names = (" ".join(filter(None, dict.fromkeys(column))) for column in columns)
            table.rows.append((self.header_line, tuple(names)))
        self.body = True


def begins_html_table(line: str) -> bool:
    """Check whether a line begins with the tag of a table."""
    return "<" in line and _BEGIN.match(line) is not None


def ends_html_table(line: str) -> bool:
    """Check whether a line has the closing tag of a table."""
    return "</table" in line.lower()


def html_table(lines: Sequence[str], first: int) -> HtmlTable:
    """The table in these lines; `first` is the number of the first line."""
    text = "\n".join(lines)
    table, row = HtmlTable(), _Row()
    cell: list[str] | None = None
    spans = {"row": 1, "col": 1}
    end, line = 0, first
    for match in [*_TAG.finditer(text), None]:
        between = text[end : match.start() if match else len(text)]
        if cell is not None:
            cell.append(between)
        elif between.strip():
            table.outside.append((line, " ".join(between.split())))
        line += between.count("\n")
        if match is None:
            break
        name, closing, end = match[2].lower(), bool(match[1]), match.end()
        if name in ("td", "th", "tr", "table") and cell is not None:
            row.add(_markdown("".join(cell)), max(spans["row"], 1), max(spans["col"], 1))
            cell = None
        if name in ("tr", "table"):
            row.end(table)
            row.line = line
        elif name in ("td", "th") and not closing:
            cell = []
            attributes = _SPAN.findall(match[3]) if match[3] else ()
            spans = {"row": 1, "col": 1} | {kind.lower(): int(count) for kind, count in attributes}
        elif name == "thead":
            row.end(table)
            row.in_header = not closing
        elif name == "br" and cell is not None:
            cell.append(" ")
        elif name not in _DROPPED:
            if cell is not None:
                cell.append(match[0])
            else:
                table.outside.append((line, match[0]))
        line += match[0].count("\n")
    if cell is not None:
        row.add(_markdown("".join(cell)), 1, 1)
    row.end(table)
    row.end_header(table)
    return table


def _markdown(text: str) -> str:
    """The text of an HTML cell as a Markdown cell in one line."""
    return _SPECIAL.sub(lambda match: "\\" + match[0], " ".join(html.unescape(text).split()))
