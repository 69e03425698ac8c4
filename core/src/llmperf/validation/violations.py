"""Building blocks of rules: the decorator that makes one, and comparisons that yield violations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import isfinite
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from llmperf.types.documents import Rule, Severity, Violation
from llmperf.types.result import Result
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
