"""Building blocks of rules: the decorator that makes one, comparisons, and one finding for one cause."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from llmperf.types.documents import Rule, Severity, Violation
from llmperf.types.result import Finding, Result
from llmperf.types.texts import Text

if TYPE_CHECKING:
    from llmperf.types.plan import Plan
    from llmperf.types.spec import RunSpec

Check = Callable[[Any], Iterable[Violation]]
"""Takes a document, yields its violations."""
EXACT = 1e-6
"""Relative tolerance for a figure that is computed again: what is left of it after JSON."""


def rule(
    code: str, severity: Severity, title: str, *kinds: str, page: str | Path | None = None
) -> Callable[[Check], Rule]:
    """Make a rule of the function below, which takes a document of these kinds (`result` if none are given).

    >>> @rule("ACME1", "warning", "The driver is known")
    ... def driver_is_known(result):
    ...     if result.hardware.driver is None:
    ...         yield "/hardware/driver", "expected the version of the driver, found null"
    """

    def make(check: Check) -> Rule:
        return Rule(code=code, severity=severity, title=title, kinds=kinds or ("result",), check=check, page=page)

    return make


def rules_in(*modules: ModuleType) -> list[Rule]:
    """The rules that these modules define, in the order of their codes: an answer to `llmperf_rules`."""
    rules = {value.code: value for module in modules for value in vars(module).values() if isinstance(value, Rule)}
    return [rules[code] for code in sorted(rules)]


def spec_of(document: Result | Plan) -> tuple[Result | RunSpec, str]:
    """The object that has contract, tuning, model, framework and challenge of a document, and its JSON pointer."""
    return (document, "") if isinstance(document, Result) else (document.spec, "/spec")


def close(found: float, expected: float, relative: float = EXACT) -> bool:
    """Check whether two figures agree within a tolerance relative to the expected one; infinity agrees with nothing."""
    if not (isfinite(found) and isfinite(expected)):
        return False
    return abs(found - expected) <= relative * max(abs(expected), abs(found) if expected == 0 else 0.0)


def differs(path: str, found: float | int | None, expected: float | int, because: str) -> Iterator[Violation]:
    """A violation where two numbers are not equal."""
    if found != expected:
        yield path, Text("expected {} ({}), found {}", figure(expected), because, figure(found))


def deviates(path: str, found: float, expected: float, because: str, relative: float = EXACT) -> Iterator[Violation]:
    """A violation where two figures are further apart than `relative`."""
    if not close(found, expected, relative):
        yield path, Text("expected {} ({}), found {}", figure(expected), because, figure(found))


def figure(value: float | int | None) -> str:
    """A number as messages show it: integers whole, others with six significant digits."""
    if value is None:
        return "null"
    return str(value) if isinstance(value, int) else f"{value:.6g}"


CONVENTIONS = ("/mfu/*", "/flops/per_token/*")
"""Lists whose entries are one figure under several conventions: what is wrong with one is wrong with all."""
MORE = "{}; and {} more of this kind"
_INDEX = re.compile(r"/\d+(?=/|$)|(?<=/records~1)(?:rank|node)-\d+")
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")


def by_cause(findings: Sequence[Finding]) -> list[Finding]:
    """The first finding of each cause, with the number of the others.

    Findings of one rule have one cause if their pointers differ in indices or in the rank of records only, and their
    messages in numbers only.
    """
    causes: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        pointer = _INDEX.sub("/*", finding.path)
        message = "" if pointer.startswith(CONVENTIONS) else _NUMBER.sub("0", finding.message)
        causes.setdefault((finding.code, pointer, message), []).append(finding)
    return [found for first, *others in causes.values() for found in with_rest([first], len(others))]


def with_rest(listed: Sequence[Finding], rest: int, template: str = MORE) -> list[Finding]:
    """Findings, the last of which says how many more there are, by a template of its message and their number."""
    if rest <= 0:
        return list(listed)
    last = listed[-1]
    message = last.message
    if last.more and isinstance(message, Text) and message.template == MORE:
        message = cast(str, message.values[0])
    rest += last.more
    return [*listed[:-1], replace(last, message=Text(template, message, rest), more=rest)]
