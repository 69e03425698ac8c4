"""Findings as lines of text, in the language of a reader."""

from __future__ import annotations

from functools import lru_cache

from llmperf.reporting.cells import printable
from llmperf.reporting.chinese_findings import BECAUSE, MESSAGES, SEVERITIES
from llmperf.reporting.words import TranslatedTemplates
from llmperf.types import Finding

MAX_MESSAGE = 2000
"""Characters of a message that is translated."""


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
    if language != "zh" or len(message) > MAX_MESSAGE:
        return message
    return _messages().translated(message) or message


@lru_cache(maxsize=1)
def _messages() -> TranslatedTemplates:
    because = TranslatedTemplates(BECAUSE)
    return TranslatedTemplates(MESSAGES, {"because": lambda part: because.translated(part) or part})
