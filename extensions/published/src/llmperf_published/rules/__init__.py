"""Rules over published documents, and the verdict on each of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from llmperf.types import Rule, Severity, Text, Violation
from llmperf.validation import Check
from llmperf.validation import rule as rule_over

from llmperf_published.types.document import Published, PublishedRow

KINDS = ("published", "readme")
"""The kinds of document with published rows: what `llmperf import` writes, and the Markdown that it reads."""


def rule(code: str, severity: Severity, title: str) -> Callable[[Check], Rule]:
    """Make a rule over published documents of the function below."""
    return rule_over(code, severity, title, *KINDS)


def row_rule(
    code: str, severity: Severity, title: str
) -> Callable[[Callable[[Published, PublishedRow], Iterable[Violation]]], Rule]:
    """Make a rule of the function below, which takes a document and each of its rows.

    It yields paths below the row and messages; each message gets the line of the row in the source.
    """

    def make(check: Callable[[Published, PublishedRow], Iterable[Violation]]) -> Rule:
        def check_rows(published: Published) -> Iterator[Violation]:
            for index, row in enumerate(published.rows):
                for path, message in check(published, row):
                    yield f"/rows/{index}/{path}", Text("{}, {}", message, Text("line {}", row.line))

        return rule(code, severity, title)(check_rows)

    return make
