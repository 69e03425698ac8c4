"""Text from documents on one line, made harmless for terminals and Markdown."""

from __future__ import annotations

from functools import lru_cache

from llmperf.files.text import printable as escaped

MAX_CELL = 400
_MARKDOWN = {ord(char): f"\\{char}" for char in "\\|`*[]~"} | {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}


@lru_cache(maxsize=4096)  # reports of many runs show the same texts again and again
def printable(text: str, limit: int = MAX_CELL) -> str:
    """Text on one line, without characters that move a cursor or hide text; cut off after `limit` characters."""
    line = " ".join(text[: limit + 1].split())
    line = escaped(line)
    return line if len(line) <= limit else line[:limit] + "..."


@lru_cache(maxsize=4096)
def markdown_text(text: str, limit: int = MAX_CELL) -> str:
    """Text of a document escaped for Markdown: it cannot begin or end a cell, line, tag, link or code span."""
    return printable(text, limit).translate(_MARKDOWN)
