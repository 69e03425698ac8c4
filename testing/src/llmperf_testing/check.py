"""A check of the conformance kit, and its outcome."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import getdoc
from typing import Any, Literal

from llmperf.errors import LlmperfError

State = Literal["passed", "failed", "skipped"]
Function = Callable[[Any], None]


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

    function: Function
    """Takes the subject; raises ContractError or Skip."""
    hook: str | None
    """The check is for roles that may answer this hook; None for all."""
    slow: bool
    """The check trains."""

    @property
    def name(self) -> str:
        """Such as `events-agree-with-wall-time`."""
        return self.function.__name__.replace("_", "-")

    @property
    def meaning(self) -> str:
        """Requirement that the check tests."""
        return (getdoc(self.function) or "").split("\n", 1)[0]


CHECKS: dict[str, list[Check]] = defaultdict(list)
"""The checks of each module of `llmperf_testing.checks`, in their order."""
TRAINING = ("training", "watched", "leaving")
"""Modules whose checks train."""


def check(*rests_on: Function, hook: str | None = None) -> Callable[[Function], Function]:
    """Make a function a check of its module, which is skipped if one that it rests on fails."""

    def register(function: Function) -> Function:
        @wraps(function)
        def checked(subject: Any) -> None:
            subject.rests_on(*rests_on)
            try:
                function(subject)
            except LlmperfError as error:
                raise ContractError(str(error)) from error.__cause__

        module = function.__module__.rpartition(".")[2]
        CHECKS[module].append(Check(checked, hook, module in TRAINING))
        return checked

    return register


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one check for one plugin."""

    role: str
    """The plugin's."""
    check: str
    meaning: str
    """Requirement that the check tests."""
    state: State
    """Passed, failed or skipped."""
    message: str
    """Reason for a failure or skip; empty when it passed."""
    seconds: float
    """Duration, including preparations that it was the first to need."""
