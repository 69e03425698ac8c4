"""How many findings there are, those counted that are only told of and not shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from llmperf.types import Finding

_REST = re.compile(r"; and (?:at least )?([0-9]{1,9}) more (?:of this kind|in this document)$")


def with_the_rest(
    shown: Sequence[Finding], rest: int, what: str = "of this kind", least: bool = False
) -> list[Finding]:
    """Findings of which the last says how many more there are; with `least`, that they were not all counted."""
    if not rest:
        return list(shown)
    more = f"{'at least ' if least else ''}{rest} more {what}"
    return [*shown[:-1], replace(shown[-1], message=f"{shown[-1].message}; and {more}")]


def counted(findings: Iterable[Finding], *severities: str) -> int:
    """How many findings of these severities there are, also those that the shown ones tell of."""
    return sum(1 + _rest(one) for one in findings if one.severity in severities)


def _rest(one: Finding) -> int:
    found = _REST.search(one.message[-60:])
    return int(found[1]) if found else 0
