"""Texts made harmless, and in the language of a reader, from the plugins that answer `llmperf_translations`."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from llmperf.files.text import printable as escaped
from llmperf.types.texts import Text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llmperf.types import Finding, Row

CJK = "\u2e80"
"""The first of the characters between which Chinese text has no spaces."""


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


def word(english: str, language: str) -> str:
    """A text of llmperf in a language; texts of users, documents and machines are values of rows, for `value_text`."""
    if language == "en":
        return english
    if not isinstance(english, Text):
        return _translations(language).get(english, english)
    values = [word(value, language) if isinstance(value, Text) else value for value in english.values]
    template = _translations(language).get(english.template)
    return english.template.format(*values) if template is None else _filled(template, values)


def recorded(english: str, language: str) -> str:
    """A finished text of llmperf that a document has, by the template that it was made of; a list by its parts."""
    if language == "en" or isinstance(english, Text) or english in _translations(language):
        return word(english, language)
    if (text := Text.read(english)).template in _translations(language):
        return word(text, language)
    for mark in ("; ", ", ", ": "):
        parts = english.split(mark)
        if len(parts) > 1 and (translated := [recorded(part, language) for part in parts]) != parts:
            return word(mark, language).join(translated)
    return english


def value_text(row: Row, language: str) -> str:
    """The value of a row as every format shows it, in a language; only words of llmperf are translated."""
    from llmperf.reporting.cells import shown

    text = shown(row)
    own = row.own_words or isinstance(text, Text) or (isinstance(row.value, bool) and row.text is None)
    return recorded(text, language) if own else text


def sentence(english: str, language: str, **values: object) -> str:
    """A template in a language, with its values."""
    return word(english, language).format(**values)


def finding_text(finding: Finding, language: str = "en") -> str:
    """A finding on one line."""
    where = f"{finding.path}{word(': ', language)}" if finding.path else ""
    return printable(f"{finding.code} {word(finding.severity, language)} {where}{recorded(finding.message, language)}")


def _filled(template: str, values: list[object]) -> str:
    """A template with its values; a space between two Chinese texts is left out."""
    from string import Formatter

    made, formatter = [""], Formatter()
    for literal, name, form, conversion in formatter.parse(template):
        if made[-1][-1:] >= CJK:
            literal = literal.removeprefix(" ")
        if name is None:
            return "".join((*made, literal))
        value = formatter.convert_field(values[int(name)], conversion)
        text = formatter.format_field(value, form or "")
        made += [literal.removesuffix(" ") if text[:1] >= CJK else literal, text]
    return "".join(made)


@lru_cache(maxsize=4)
def _translations(language: str) -> Mapping[str, str]:
    """Translations of all plugins that have some for a language, by their templates."""
    from llmperf.validation.catalogue import open_catalogue

    found: dict[str, str] = {}
    for _, table in open_catalogue().plugins.collect_sound("llmperf_translations", [], language=language):
        found = {**table, **found}
    return found
