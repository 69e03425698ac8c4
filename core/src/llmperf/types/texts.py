"""Texts that keep their template and values, so that reports can show them in another language."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

_QUOTED = r"""(?<!\w)(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')(?!\w)"""
_VALUE = re.compile(rf"({_QUOTED}|(?<![\w.])-?[0-9](?:[0-9.,e+-]*[0-9])?(?!\w))")
"""A quoted text or a number."""


class Text(str):
    """A template with its values, in English.

    It is a `str` in every respect; a catalogue of another language has a translation of `template`, into which `values`
    are filled anew. Values that are a `Text` themselves are translated too; all others stay as they are.

    >>> Text("expected {}, found {:.1f}", Text("at most {}", 8), 9)
    'expected at most 8, found 9.0'
    """

    __slots__ = ("template", "values")
    template: str
    values: tuple[object, ...]

    def __new__(cls, template: str, *values: object) -> Text:
        """`template` is a format string with `{}` for each value, in their order."""
        text = super().__new__(cls, template.format(*values))
        text.template, text.values = template, values
        return text

    @classmethod
    def joined(cls, mark: str, texts: Iterable[str]) -> Text:
        """Texts with a mark between them."""
        parts = tuple(texts)
        return cls(mark.join(["{}"] * len(parts)), *parts)

    @classmethod
    def read(cls, english: str) -> Text:
        """A finished text of llmperf that a document has: its numbers and quoted parts are the values."""
        parts = _VALUE.split(english)
        return cls("{}".join(part.replace("{", "{{").replace("}", "}}") for part in parts[::2]), *parts[1::2])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled and copied by its parts."""
        return Text, (self.template, *self.values)


def changed(text: str, change: Callable[[str], str]) -> str:
    """A `Text` whose values that are texts are changed, at every depth; any other text is changed as a whole."""
    if not isinstance(text, Text):
        return change(text)
    return Text(text.template, *(changed(value, change) if isinstance(value, str) else value for value in text.values))
