"""Headings, labels, values and sentences in the language of a reader; labels as the published READMEs word them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from llmperf.reporting.finding_texts import TranslatedTemplates, finding_message, tables_of_packages

if TYPE_CHECKING:
    from llmperf.types import Row

MAX_TEXT = 400
"""Characters of a finished text that is translated."""

FILE = "words.zh.toml"
"""File in the folder `data` of a package: tables `sentences` and `values` of Chinese texts by English ones."""
OWN = ("reason", "verdict", "convention", "layout", "place", "confidence", "method")
"""Parts of values that are words of llmperf, which are translated too."""


def word(english: str, language: str) -> str:
    """A heading, label or text of llmperf in a language; English if it has no translation.

    A finished text, such as `15 steps in 84.86 s`, is translated by its template. Texts of users, documents and
    machines must not be given: use `value_text` for the value of a row.
    """
    if language != "zh":
        return english
    return _chinese()[0].get(english) or _of_template(english)


def value_text(row: Row, language: str) -> str:
    """The value of a row as every format shows it, in a language; only words of llmperf are translated."""
    from llmperf.reporting.cells import shown

    own = row.own_words or (isinstance(row.value, bool) and row.text is None)
    return word(shown(row), language) if own else shown(row)


def sentence(english: str, language: str, **values: object) -> str:
    """A template in a language, with its values."""
    return (_chinese()[0].get(english, english) if language == "zh" else english).format(**values)


@lru_cache(maxsize=4096)  # reports of many runs show the same values again and again
def _of_template(english: str) -> str:
    """A finished text by the template that it matches; a list by those of its parts."""
    if len(english) > MAX_TEXT:
        return english
    if (chinese := _chinese()[1].translated(english)) is not None:
        return chinese
    for mark, chinese_mark in (("; ", "；"), (", ", "，")):
        first, *others = english.split(mark)
        if others and word(first, "zh") != first:
            return chinese_mark.join(word(part, "zh") for part in (first, *others))
    return english


@lru_cache(maxsize=1)
def _chinese() -> tuple[dict[str, str], TranslatedTemplates]:
    """All texts by their English ones, and the templates that finished texts match."""
    sentences: dict[str, str] = {}
    values: dict[str, str] = {}
    for table in tables_of_packages(FILE):
        sentences = {**table.get("sentences", {}), **sentences}
        values = {**table.get("values", {}), **values}
    own = dict.fromkeys(OWN, lambda part: word(part, "zh"))
    own["counts"] = lambda part: finding_message(part, "zh")  # in the words of the package that counts
    return {**sentences, **values}, TranslatedTemplates(values, own)
