"""Markdown as a flat list of blocks with line numbers, table rows as cells, and text without markup.

Published documents are untidy: lists have arbitrary indentation, headings are inside bullets, and tables have no
delimiter row or rows with more cells than headers. CommonMark turns such lines into code blocks or paragraphs and
drops the surplus cells. This reader classifies each line by its first characters, ignores nesting, and keeps every
cell. Its time grows linearly with the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from string import whitespace
from typing import Literal

from llmperf_published.reading.html_tables import begins_html_table, html_table

BlockKind = Literal["heading", "item", "text", "quote", "code", "table"]

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
        line = lines[number]
        if fence := _FENCE.match(line):
            block, number = _code(lines, number, fence[1][0])
        elif number <= last_html and begins_html_table(line):
            html_blocks, number = _html(lines, number)
            result += html_blocks
            continue
        elif _begins_table(lines, number):
            block, number = _table(lines, number)
        else:
            _add_line(result, line, number, after_blank=number == 0 or not lines[number - 1].strip())
            number += 1
            continue
        result.append(block)
    return result


def _code(lines: Sequence[str], start: int, mark: str) -> tuple[Block, int]:
    """A fenced block and the index of the line after it. An unclosed block extends to the end of the text."""
    end = start + 1
    while end < len(lines) and not (lines[end].strip().startswith(mark * 3) and not lines[end].strip(mark + " \t")):
        end += 1
    info = lines[start].strip().lstrip(mark).strip()
    return Block("code", start + 1, "\n".join([*[info] * bool(info), *lines[start + 1 : end]])), end + 1


def _html(lines: Sequence[str], start: int) -> tuple[list[Block], int]:
    """An HTML table with the text around its cells, and the index of the line after it."""
    end = start
    while "</table" not in lines[end].lower():
        end += 1
    table = html_table(lines[start : end + 1], start + 1)
    result = [Block("text", line, text) for line, text in table.outside]
    if table.rows:
        result.append(Block("table", table.rows[0][0], rows=tuple(table.rows)))
    return sorted(result, key=lambda block: block.line), end + 1


def _begins_table(lines: Sequence[str], number: int) -> bool:
    """Check whether a line with cells is followed by a delimiter row, or two consecutive lines begin with a bar."""
    line, after = lines[number], lines[number + 1] if number + 1 < len(lines) else ""
    if "|" not in line:
        return False
    return (line.lstrip().startswith("|") and after.lstrip().startswith("|")) or is_delimiter_row(after)


def _table(lines: Sequence[str], start: int) -> tuple[Block, int]:
    """A table and the index of the line after its last row."""
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


def has_chinese(text: str) -> bool:
    """Check whether a text contains a Chinese character."""
    return any("\u4e00" <= char <= "\u9fff" for char in text)
