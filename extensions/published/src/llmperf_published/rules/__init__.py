"""Rules over published documents, and the verdict on each of their rows."""

from __future__ import annotations

from collections.abc import Callable

from llmperf.types import Rule, Severity
from llmperf.validation import Check
from llmperf.validation import rule as rule_over

KINDS = ("published", "readme")
"""The kinds of document with published rows: what `llmperf import` writes, and the Markdown that it reads."""


def rule(code: str, severity: Severity, title: str) -> Callable[[Check], Rule]:
    """Make a rule over published documents of the function below."""
    return rule_over(code, severity, title, *KINDS)
