"""Markdown as a flat list of blocks with line numbers, table rows as cells, and text without markup.

Published documents are untidy: lists have arbitrary indentation, headings are inside bullets, and tables have no
delimiter row or rows with more cells than headers. CommonMark turns such lines into code blocks or paragraphs and
drops the surplus cells. This reader classifies each line by its first characters, ignores nesting, and keeps every
cell. It knows HTML tables, their formatting tags, `rowspan` and `colspan`, and is no HTML parser. Its time and its
cells grow linearly with the length of the text.
"""

from __future__ import annotations

import csv
import html
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from string import whitespace
from typing import Literal

MAX_CELLS = 200_000
"""Cells of an HTML table above which `rowspan` and `colspan` are ignored."""

BlockKind = Literal["heading", "item", "text", "quote", "code", "table"]

CSV = (".csv", ".tsv")
"""Suffixes of tables of values that a comma or a tab separates."""

_MARKER = re.compile(r"\s*(?:[-*+•·]|\d{1,3}\s?[.)、．])\s+|\s*(?:\d{1,3}[、．])")
_HEADING = re.compile(r"\s{0,20}(#{1,6})(?:\s+|(?=[^\s#]))(.*)")
_FENCE = re.compile(r"\s*(```+|~~~+)")
_DELIMITER = re.compile(r":?-{1,}:?")
_BAR = re.compile(r"\\.|\|", re.DOTALL)
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_EMPHASIS = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")
_SLANTED = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*]+?)(?<=\S)\*(?![\w*])")
_CODE = re.compile(r"(`{1,3})([^`]+)\1")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\(([^()]*)\)")
_MARKUP = re.compile(r"[*_`\[\\<]")
"""Without these characters a text has no markup."""
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_TAG = re.compile(r"</?(?:div|span|b|i|em|strong|sub|small|font|center|p|u)(?:\s[^<>]*)?>", re.IGNORECASE)
"""Tags around the text of a cell."""
_WITHHELD = re.compile(
    r"[/\\*\-–—―－~.?]*|n\s?/\s?a|n\.?a\.?|none|null|nil|无|暂无|不适用|未公开|tbd|待定", re.IGNORECASE
)
_HTML_BEGIN = re.compile(r"\s*(?:<(?:div|center|p)\b[^<>]{0,200}>\s*)*<table\b", re.IGNORECASE)
_HTML_CELL = re.compile(r"(<t[rdh]\b[^<>]{0,400}>)", re.IGNORECASE)
_HTML_DROPPED = re.compile(
    r"</?(?:table|thead|tbody|tfoot|caption|colgroup|col|tr|td|th|div|center|p|span|font|b|strong|i|em|u|s|small|sub|sup"
    r"|code|a|br)(?:\s[^<>]{0,400})?/?>",
    re.IGNORECASE,
)
"""Tags that leave only their text; tags that are not known stay text."""
_HTML_SPAN = re.compile(r"\b(row|col)span\s*=\s*[\"']?(\d{1,3})(?!\d)", re.IGNORECASE)
_HTML_SPECIAL = re.compile(r"[\\`*|<\[]|_(?=_)|(?<=_)_")
_PLAIN = str.maketrans(
    {"，": ",", "：": ":", "（": "(", "）": ")",
     "；": ";", "＝": "=", "％": "%", "×": "*", "÷": "/", "✕": "*", "＊": "*",
     "、": ",", "“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "−": "-", "–": "-", "—": "-", "\u3000": " ",
     "\u00a0": " ", "\u200b": "", "\ufeff": "", "≈": "~", "。": "."}
)  # fmt: skip


@dataclass(slots=True)
class Block:
    """A heading, list item, paragraph, quote, code block or table.

    Lines that follow an item, a paragraph or a quote without a marker of their own continue its `text`.
    """

    kind: BlockKind
    line: int
    """Number of its first line, from 1."""
    text: str = ""
    level: int = 0
    """Level of a heading: the number of its `#`."""
    rows: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """Rows of a table: line number and raw cells, headers first, without the delimiter row."""


def blocks(lines: Sequence[str]) -> list[Block]:
    """The blocks of a text that is split into lines."""
    result: list[Block] = []
    number = 0
    last_html = max((index for index, line in enumerate(lines) if "</table" in line.lower()), default=-1)
    while number < len(lines):
        line, after = lines[number], lines[number + 1] if number + 1 < len(lines) else ""
        barred = line.lstrip().startswith("|")
        end = start = number
        if fence := _FENCE.match(line):
            mark, end = fence[1][0], start + 1
            while end < len(lines) and not (
                lines[end].strip().startswith(mark * 3) and not lines[end].strip(f"{mark} \t")
            ):
                end += 1
            info = line.strip().lstrip(mark).strip()
            result.append(Block("code", start + 1, "\n".join([*[info] * bool(info), *lines[start + 1 : end]])))
            number = end + 1
        elif number <= last_html and "<" in line and _HTML_BEGIN.match(line):
            while "</table" not in lines[end].lower():
                end += 1
            result += _html_table(lines[start : end + 1], start + 1)
            number = end + 1
        elif "|" in line and ((barred and after.lstrip().startswith("|")) or is_delimiter_row(after)):
            rows = [(start + 1, split_cells(line))]
            number += 2 if is_delimiter_row(after) else 1
            while number < len(lines) and _is_row(lines[number], barred):
                rows.append((number + 1, split_cells(lines[number])))
                number += 1
            result.append(Block("table", start + 1, rows=tuple(rows)))
        else:
            _add_line(result, line, number, after_blank=number == 0 or not lines[number - 1].strip())
            number += 1
    return result


def csv_blocks(text: str, name: str) -> list[Block]:
    """A table of values; nothing else is in such a file."""
    lines = text.splitlines(keepends=True)
    titles = lines[0] if lines else ""
    delimiter = "\t" if name.endswith(".tsv") else ";" if titles.count(";") > titles.count(",") else ","
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    rows, line = [], 1
    for cells in reader:
        if any(cells):
            rows.append((line, tuple(unmarked(cell.strip()) for cell in cells)))
        line = reader.line_num + 1
    return [Block("table", rows[0][0], rows=tuple(rows))] if rows else []


def unmarked(text: str) -> str:
    """Text whose signs are no Markdown."""
    return _HTML_SPECIAL.sub(lambda match: "\\" + match[0], text)


def _is_row(line: str, barred: bool) -> bool:
    if line.lstrip().startswith("|"):
        return True
    return not barred and "|" in line and not _MARKER.match(line) and not line.lstrip().startswith(("#", ">"))


def _html_table(lines: Sequence[str], first: int) -> list[Block]:
    """The HTML table in these lines with the text around its cells; `first` is the number of the first line.

    In the rows that a cell reaches down to, its text is repeated; further columns of a cell are empty.
    """
    rows: list[tuple[int, list[str]]] = []
    reaching: dict[int, tuple[int, str]] = {}  # column to the number of further rows, and the text
    outside: list[tuple[int, str]] = []
    line, total, tag = first, 0, ""
    for piece in _HTML_CELL.split("\n".join(lines)):
        begin, line = line, line + piece.count("\n")
        if _HTML_CELL.fullmatch(piece):
            tag = piece
            if tag[1:3].lower() == "tr":
                rows.append((begin, []))
            continue
        text = unmarked(" ".join(html.unescape(_HTML_DROPPED.sub(" ", piece)).split()))
        cells = rows[-1][1] if rows and tag[1:3].lower() != "tr" else None
        if cells is None:
            outside.append((begin, text))
            continue
        spans = {kind.lower(): max(int(count), 1) for kind, count in _HTML_SPAN.findall(tag)}
        down, across = spans.get("row", 1), spans.get("col", 1)
        total += down * across
        down, across = (down, across) if total <= MAX_CELLS else (1, 1)
        while len(cells) in reaching:
            _repeat(cells, reaching)
        for column in range(across):
            if down > 1:
                reaching[len(cells)] = (down - 1, text if not column else "")
            cells.append(text if not column else "")
        if piece.lower().rstrip().endswith(("</tr>", "</table>")):
            while len(cells) in reaching:
                _repeat(cells, reaching)
    rows = [(number, cells) for number, cells in rows if cells]
    while len(rows) > 1 and not any(rows[0][1][1:]):  # a title above all columns
        number, cells = rows.pop(0)
        outside.append((number, cells[0]))
    result = [Block("text", number, words) for number, words in outside if words]
    if rows:
        result.append(Block("table", rows[0][0], rows=tuple((number, tuple(cells)) for number, cells in rows)))
    return sorted(result, key=lambda block: block.line)


def _repeat(cells: list[str], reaching: dict[int, tuple[int, str]]) -> None:
    """Append the cell of an earlier row that reaches down to here."""
    further, text = reaching.pop(len(cells))
    if further > 1:
        reaching[len(cells)] = (further - 1, text)
    cells.append(text)


def _add_line(result: list[Block], line: str, number: int, after_blank: bool) -> None:
    """Append a line as a new block, or to the last block if the line continues it."""
    text = line.strip()
    if not text:
        return
    inner = line[marker.end() :] if (marker := _MARKER.match(line)) else line
    last = result[-1] if result else None
    if heading := _HEADING.match(inner):
        title = heading[2].rstrip(f"{whitespace}\u00a0\u3000#").strip()
        result.append(Block("heading", number + 1, title, len(heading[1])))
    elif marker:
        result.append(Block("item", number + 1, inner.strip()))
    elif text.startswith(">"):
        quoted = text.lstrip("> ").strip()
        if last and last.kind == "quote" and last.line + last.text.count("\n") == number:
            last.text += "\n" + quoted
        else:
            result.append(Block("quote", number + 1, quoted))
    elif last and not after_blank and last.kind in ("item", "text", "quote"):
        last.text += "\n" + text
    else:
        result.append(Block("text", number + 1, text))


def split_cells(line: str) -> tuple[str, ...]:
    """The stripped raw cells of a table row. `\\|` does not end a cell; the outer bars are optional."""
    text = line.strip()
    bars = [match.start() for match in _BAR.finditer(text) if match[0] == "|"]
    cells = [text[start:end].strip() for start, end in zip([0, *(bar + 1 for bar in bars)], [*bars, None], strict=True)]
    if len(cells) > 1 and not cells[0]:
        cells = cells[1:]
    if len(cells) > 1 and not cells[-1]:
        cells = cells[:-1]
    return tuple(cells)


def is_delimiter_row(line: str) -> bool:
    """Check whether a line separates headers and body: dashes and colons in every cell."""
    cells = split_cells(line) if "|" in line else ()
    return bool(cells) and all(_DELIMITER.fullmatch(cell) for cell in cells)


def plain(raw: str) -> str:
    """A cell or line without emphasis, code marks, links and escapes. Entities are kept."""
    if not _MARKUP.search(raw):
        return " ".join(raw.split())
    text = _TAG.sub("", _BREAK.sub(" ", raw))
    for pattern, kept in ((_CODE, r"\2"), (_LINK, r"\1 \2"), (_EMPHASIS, r"\2"), (_SLANTED, r"\1")):
        text = pattern.sub(kept, text)
    return " ".join(_ESCAPED.sub(r"\1", text).split())


def normal(text: str) -> str:
    """Text for pattern matching: full-width forms and typographic signs as ASCII, single spaces."""
    if text.isascii():
        return " ".join(text.split())
    text = text.translate(_PLAIN)
    numerals = {char for char in text if unicodedata.category(char) in ("No", "Nl")}  # `①②` is not 12
    parts = (char if char in numerals else unicodedata.normalize("NFKC", char) for char in text)
    return " ".join(("".join(parts) if numerals else unicodedata.normalize("NFKC", text)).translate(_PLAIN).split())


def withheld(text: str) -> bool:
    """Check whether a cell's plain text states no value: empty, `/`, `-`, `--`, `*`, `N/A`, `none`, ..."""
    return not text or _WITHHELD.fullmatch(normal(text)) is not None
