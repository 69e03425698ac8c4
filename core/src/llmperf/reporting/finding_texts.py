"""Findings as lines of text, in the language of a reader.

A package says the messages of its rules in Chinese in `data/findings.zh.toml`, by their English templates.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from llmperf.reporting.safe_text import printable
from llmperf.reporting.templates import TranslatedTemplates
from llmperf.types import Finding

MAX_MESSAGE = 1000
"""Characters of a message that is translated."""
SEVERITIES = {"error": "错误", "warning": "警告", "note": "说明"}
FILE = Path("data", "findings.zh.toml")
"""Where a package has the Chinese messages of its rules."""
OWN = ("expected", "because", "found", "what", "why", "message")
"""Parts of templates that are words of llmperf, which are translated too."""

QUOTED = re.compile(r"""(?<!\w)(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|["'].*?\.\.\.)(?!\w)""")
"""A value in quotes, which may be cut off."""
MASK = "\x1a"
"""Stands around the number of a quoted value while the text around it is translated."""


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
    """Chinese templates of messages by the English ones: the core's, and those of installed packages.

    The core's come first where two packages have one template. A file that cannot be read is passed over.
    """
    from llmperf.errors import UserError
    from llmperf.files.user_files import read_toml
    from llmperf.validation.installed import installed

    templates: dict[str, str] = {}
    for package in dict.fromkeys(("llmperf", *sorted(found.module.partition(".")[0] for found in installed()))):
        try:
            spec = find_spec(package)
            if spec is not None and spec.origin is not None and (path := Path(spec.origin).parent / FILE).is_file():
                templates = {**read_toml(path), **templates}
        except (ImportError, ValueError, UserError):
            continue
    return templates
