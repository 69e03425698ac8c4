"""Every rule there is: its code, its severity, what it says. Its page is `docs/rules/CODE.md`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import islice
from typing import Any, Literal

from llmperf.types import Finding
from llmperf.validation.counting import with_the_rest

MAX_VIOLATIONS = 20
"""Of one rule in one document; the last of them says how many more there are."""
RULESET = 3
"""Raised when a rule is added or changed so that a document that passed would no longer."""

Severity = Literal["error", "warning", "note"]
Violation = tuple[str, str]
"""JSON pointer, and one line that says what was found and what was expected."""
Check = Callable[[Any], Iterable[Violation]]

_MODULES = (
    "documents",
    "parallelism",
    "throughput",
    "utilisation",
    "memory",
    "loss",
    "learning",
    "identity",
    "shipped",
    "files",
    "submission",
    "devices",
)
_OF_PUBLISHED = tuple(f"llmperf_published.rules.{name}" for name in ("layout", "figures", "mfu", "devices", "identity"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. `check` is None where the rule is applied while a document is read."""

    code: str
    severity: Severity
    title: str
    subjects: tuple[str, ...] = ()
    """`result`, `plan`, `published`: what `check` takes."""
    check: Check | None = None

    def finding(self, path: str, message: str) -> Finding:
        """A violation of this rule."""
        return Finding(code=self.code, severity=self.severity, path=path, message=message)

    def findings(self, document: Any) -> Iterator[Finding]:
        """What this rule has to say of a document."""
        yield from self.told(self.check(document) if self.check else ())

    def told(self, violations: Iterable[Violation]) -> list[Finding]:
        """Violations of this rule as findings, the last of which says how many more there are."""
        left = iter(violations)
        shown = [self.finding(path, message) for path, message in islice(left, MAX_VIOLATIONS)]
        return with_the_rest(shown, sum(1 for _ in left))


_RULES: dict[str, Rule] = {}


def register(made: Rule) -> Rule:
    """Enter a rule; each code belongs to one."""
    if made.code in _RULES:
        raise ValueError(f"two rules have the code {made.code}")
    _RULES[made.code] = made
    return made


def rule(code: str, severity: Severity, title: str, *subjects: str) -> Callable[[Check], Check]:
    """Enter a predicate over a document: it yields what breaks the rule, nothing when all is well."""

    def enter(check: Check) -> Check:
        register(Rule(code=code, severity=severity, title=title, subjects=subjects or ("result",), check=check))
        return check

    return enter


def reading_rule(code: str, severity: Severity, title: str) -> Rule:
    """Enter a rule that is applied while a document is read."""
    return register(Rule(code=code, severity=severity, title=title))


def catalogue() -> tuple[Rule, ...]:
    """Every rule of the core, by code."""
    _load((*_MODULES, *_OF_PUBLISHED))
    return tuple(_RULES[code] for code in sorted(_RULES))


def _load(modules: Iterable[str]) -> None:
    for module in modules:
        import_module(module if "." in module else f"llmperf.validation.rules.{module}")


@cache
def rules_for(subject: str) -> tuple[Rule, ...]:
    """The semantic rules over a kind of document."""
    _load(_OF_PUBLISHED if subject == "published" else _MODULES)
    return tuple(_RULES[code] for code in sorted(_RULES) if subject in _RULES[code].subjects)
