"""Findings as lines of text, in the language of a reader.

A package says the messages of its rules in Chinese in `data/findings.zh.toml`, by their English templates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from llmperf.reporting.safe_text import printable
from llmperf.types import Finding

MAX_MESSAGE = 1000
"""Characters of a message that is translated."""
SEVERITIES = {"error": "错误", "warning": "警告", "note": "说明"}
FILE = "findings.zh.toml"
"""File of Chinese messages of rules, in the folder `data` of a package."""
NUMBER = r"(?:-?[0-9][0-9.,e+-]*|-?inf|nan)"
CJK = "\u2e80"
"""The first of the characters between which Chinese text has no spaces."""
OWN = ("expected", "because", "found", "what", "why", "message")
"""Parts of templates that are words of llmperf, which are translated too."""

QUOTED = re.compile(r"""(?<!\w)(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|["'].*?\.\.\.)(?!\w)""")
"""A value in quotes, which may be cut off."""
MASK = "\x1a"
"""Mark around the number of a quoted value while the text around it is translated."""


def finding_text(finding: Finding, language: str = "en") -> str:
    """A finding on one line."""
    mark = "：" if language == "zh" else ": "
    where = f"{finding.path}{mark}" if finding.path else ""
    severity = severity_text(finding.severity, language)
    return printable(f"{finding.code} {severity} {where}{finding_message(finding.message, language)}")


def severity_text(severity: str, language: str) -> str:
    """`error`, `warning` or `note` in a language."""
    return SEVERITIES.get(severity, severity) if language == "zh" else severity


@lru_cache(maxsize=4096)  # reports of many runs have the same findings again and again
def finding_message(message: str, language: str) -> str:
    """The message of a finding in a language; English where no template fits."""
    if language != "zh" or len(message) > MAX_MESSAGE or MASK in message:
        return message
    quoted: list[str] = []

    def masked(match: re.Match[str]) -> str:
        quoted.append(match[0])
        return f"{MASK}{len(quoted) - 1}{MASK}"

    chinese = _translated(QUOTED.sub(masked, message))
    return re.sub(f"{MASK}(\\d+){MASK}", lambda match: quoted[int(match[1])], chinese)


def _translated(part: str) -> str:
    """A part of a message in Chinese; of several parts `a; b` each one."""
    chinese = _messages().translated(part)
    if chinese is None and "; " in part:
        return "；".join(map(_translated, part.split("; ")))
    return chinese or part


@lru_cache(maxsize=1)
def _messages() -> TranslatedTemplates:
    return TranslatedTemplates(message_templates(), dict.fromkeys(OWN, _translated))


def message_templates() -> dict[str, str]:
    """Chinese templates of messages by the English ones: the core's, and those of installed packages."""
    templates: dict[str, str] = {}
    for table in tables_of_packages(FILE):
        templates = {**table, **templates}
    return templates


def tables_of_packages(file: str) -> Iterator[dict[str, Any]]:
    """A TOML file in the folder `data` of the core and of installed packages, the core's first.

    A file that cannot be read is passed over.
    """
    from llmperf.errors import UserError
    from llmperf.files.user_files import read_toml
    from llmperf.validation.installed import installed

    for package in dict.fromkeys(("llmperf", *sorted(found.module.partition(".")[0] for found in installed()))):
        try:
            spec = find_spec(package)
            if spec is not None and spec.origin and (path := Path(spec.origin).parent / "data" / file).is_file():
                yield read_toml(path)
        except (ImportError, ValueError, UserError):
            continue


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
