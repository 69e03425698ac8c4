"""Finished texts in Chinese, by the English templates that they match."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

NUMBER = r"(?:-?[0-9][0-9.,e+-]*|-?inf|nan)"
CJK = "\u2e80"
"""The first of the characters between which Chinese text has no spaces."""


class TranslatedTemplates:
    """English templates with their translations; texts that fit one of them are translated."""

    def __init__(self, templates: Mapping[str, str], parts: Mapping[str, Callable[[str], str]] | None = None) -> None:
        """`parts` translates parts of a text by their name; the others stay as they are.

        Of several templates that fit, those that end a `{message}` come first, then those that begin with their own
        text, then the longest.
        """

        def place(english: str) -> tuple[int, int]:
            first = 0 if english.startswith("{message}") else 1 + english.startswith("{")
            return first, -len(re.sub(r"{\w+}", "", english))

        self._exact = {english: chinese for english, chinese in templates.items() if "{" not in english}
        self._patterns = [(_pattern(text), templates[text]) for text in sorted(templates, key=place) if "{" in text]
        self._parts = parts or {}

    def translated(self, english: str) -> str | None:
        """A finished text in Chinese; None where no template fits."""
        if english in self._exact:
            return self._exact[english]
        for pattern, chinese in self._patterns:
            if (match := pattern.fullmatch(english)) is not None:
                parts = {name: self._parts.get(name, str)(part) for name, part in match.groupdict().items()}
                return _filled(chinese, parts)
        return None


def _filled(chinese: str, parts: Mapping[str, str]) -> str:
    """A template with its parts; spaces separate a part from Chinese text only where the part is not Chinese."""

    def part(match: re.Match[str]) -> str:
        before, name, after = match.groups()
        text = parts[name]
        return f"{'' if text[:1] >= CJK else before}{text}{'' if text[-1:] >= CJK else after}"

    return re.sub(r"( ?){(\w+)}( ?)", part, chinese)


def _pattern(template: str) -> re.Pattern[str]:
    """A template as a regular expression: parts named n to q are numbers, the others any text."""
    parts = re.split(r"{(\w+)}", template)
    names = {name: NUMBER if len(name) == 1 else ".+?" for name in parts[1::2]}
    return re.compile(
        "".join(re.escape(part) if place % 2 == 0 else f"(?P<{part}>{names[part]})" for place, part in enumerate(parts))
    )
