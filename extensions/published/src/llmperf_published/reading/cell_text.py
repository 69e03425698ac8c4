"""Cells of Markdown tables: split as they stand, read without markup, full-width characters as plain ones."""

from __future__ import annotations

import re
import unicodedata

_DELIMITER = re.compile(r":?-{1,}:?")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_EMPHASIS = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")
_SLANTED = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*]+?)(?<=\S)\*(?![\w*])")
_CODE = re.compile(r"(`{1,3})([^`]+)\1")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\(([^()]*)\)")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_WITHHELD = re.compile(
    r"[/\\*\-–—―－~.?]*|n\s?/\s?a|n\.?a\.?|none|null|nil|无|暂无|不适用|未公开|tbd|待定", re.IGNORECASE
)

_PLAIN = str.maketrans(
    {"，": ",", "：": ":", "（": "(", "）": ")",
     "；": ";", "＝": "=", "％": "%", "×": "*", "÷": "/", "✕": "*", "＊": "*",
     "、": ",", "“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "−": "-", "–": "-", "—": "-", "\u3000": " ",
     "\u00a0": " ", "\u200b": "", "\ufeff": "", "≈": "~", "。": "."}
)  # fmt: skip


def split_cells(line: str) -> tuple[str, ...]:
    """The cells of a row as they stand, stripped. `\\|` does not end a cell; the outer bars are optional."""
    cells, current, escaped = [], "", False
    for char in line.strip():
        if char == "|" and not escaped:
            cells.append(current)
            current = ""
        else:
            current += char
        escaped = char == "\\" and not escaped
    cells.append(current)
    if len(cells) > 1 and not cells[0].strip():
        cells = cells[1:]
    if len(cells) > 1 and not cells[-1].strip():
        cells = cells[:-1]
    return tuple(cell.strip() for cell in cells)


def is_delimiter_row(line: str) -> bool:
    """Whether a line is the one between headers and body: dashes and colons in every cell."""
    cells = split_cells(line) if "|" in line else ()
    return bool(cells) and all(_DELIMITER.fullmatch(cell) for cell in cells)


def plain(raw: str) -> str:
    """A cell or a line as it reads: without emphasis, code marks, links and escapes; entities are left alone."""
    text = _BREAK.sub(" ", raw)
    for pattern, kept in ((_CODE, r"\2"), (_LINK, r"\1 \2"), (_EMPHASIS, r"\2"), (_SLANTED, r"\1")):
        text = pattern.sub(kept, text)
    return " ".join(_ESCAPED.sub(r"\1", text).split())


def normal(text: str) -> str:
    """Text as patterns take it: full-width forms and typographic signs as plain ASCII ones, single spaces."""
    return " ".join(_compatible(text.translate(_PLAIN)).translate(_PLAIN).split())


def _compatible(text: str) -> str:
    """Compatibility forms as plain ones, except for numerals: `①②` is not 12, `³000` not 3000."""
    if text.isascii():
        return text
    numerals = {char for char in text if unicodedata.category(char) in ("No", "Nl")}
    if not numerals:
        return unicodedata.normalize("NFKC", text)
    return "".join(char if char in numerals else unicodedata.normalize("NFKC", char) for char in text)


def withheld(text: str) -> bool:
    """Whether a cell's plain text says that there is nothing: empty, `/`, `-`, `--`, `*`, `N/A`, `none`."""
    return _WITHHELD.fullmatch(normal(text)) is not None


def has_chinese(text: str) -> bool:
    """Whether there is any Chinese character."""
    return any("\u4e00" <= char <= "\u9fff" for char in text)
