"""A check of the conformance kit, and its outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import getdoc
from typing import Any, Literal

State = Literal["passed", "failed", "skipped"]


class ContractError(AssertionError):
    """A plugin violates its contract: what was expected and what was found."""


class Skip(Exception):
    """A check cannot be run here; the message is the reason."""


def require(holds: object, message: str) -> None:
    """ContractError with the message unless `holds` is true."""
    if not holds:
        raise ContractError(message)


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement for plugins. Its name is stable; its meaning is one line."""

    function: Callable[[Any], None]
    """Takes the subject; raises ContractError or Skip."""
    slow: bool = False
    """The check trains."""

    @property
    def name(self) -> str:
        """Such as `events-agree-with-wall-time`."""
        return self.function.__name__.replace("_", "-")

    @property
    def meaning(self) -> str:
        """Requirement that the check tests."""
        return (getdoc(self.function) or "").split("\n", 1)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one check for one plugin."""

    role: str
    """The plugin's."""
    check: str
    """Its name."""
    meaning: str
    """Requirement that the check tests."""
    state: State
    """Passed, failed or skipped."""
    message: str
    """Reason for a failure or skip; empty when it passed."""
    seconds: float
    """Duration, including preparations that it was the first to need."""
