"""A check of the conformance kit, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import getdoc
from typing import Any, Literal

State = Literal["passed", "failed", "skipped"]


class ContractError(AssertionError):
    """A plugin does not keep its contract: what was expected and what was found."""


class Skip(Exception):
    """A check cannot be made here, and why."""


def require(holds: object, message: str) -> None:
    """ContractError with that message unless something holds."""
    if not holds:
        raise ContractError(message)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a plugin must do. Its name is stable; its meaning is one line."""

    function: Callable[[Any], None]
    """Takes the subject; raises ContractError or Skip."""
    slow: bool = False
    """Whether it trains."""

    @property
    def name(self) -> str:
        """Such as `events-agree-with-wall-time`."""
        return self.function.__name__.replace("_", "-")

    @property
    def meaning(self) -> str:
        """What must hold."""
        return (getdoc(self.function) or "").split("\n", 1)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one check came to for one plugin."""

    role: str
    """The plugin's."""
    check: str
    """Its name."""
    meaning: str
    """What must hold."""
    state: State
    """How it ended."""
    message: str
    """Why it failed or was skipped; empty when it passed."""
    seconds: float
    """What it took, preparations that it was the first to need included."""
