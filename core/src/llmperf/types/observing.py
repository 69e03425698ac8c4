"""Observers: the methods of a plugin that follows a run, and the states and steps that they receive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from llmperf.types.records import Phase

if TYPE_CHECKING:
    from llmperf.types.plan import Plan
    from llmperf.types.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The state of a run at one moment. Unknown is None."""

    phase: Phase
    """The earliest phase that any rank is in."""
    step: int
    """Steps that every rank has finished."""
    steps: int
    """Steps of the whole run."""
    loss: float | None
    """Mean over ranks, of the last step that every rank has finished."""
    tokens_per_second_per_device: float | None
    """Over the last steps; over warm-up steps until a step has been measured."""
    mfu: float | None
    """Under the headline convention."""
    memory_used_bytes: int | None
    """Memory in use on the fullest device."""
    seconds_left: float | None
    """Until the last step, at the present pace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProgress:
    """A step that every rank has finished."""

    step: int
    """Counted from 1, warm-up steps included."""
    measured: bool
    """False for a warm-up step."""
    loss: float | None
    """Mean over the ranks that reported a loss; None if none did."""
    step_seconds: float
    """Step time of the slowest rank."""
    tokens_per_second_per_device: float | None
    """None if the step took no measurable time."""


class Observer(Protocol):
    """Follows one run at a time. Each observer has its own thread, so that it never delays the run.

    An observer that raises, or does not return within 5 seconds (30 if `--log` asked for it), is dropped with a
    warning. An observer may print to standard error; standard output belongs to llmperf.
    """

    @property
    def name(self) -> str:
        """The name in warnings."""

    def started(self, plan: Plan, folder: Path) -> None:
        """The ranks are about to start; `folder` is the run folder."""

    def progress(self, progress: Progress) -> None:
        """The present state, about five times a second; states are left out while the observer is busy."""

    def steps(self, steps: Sequence[StepProgress]) -> None:
        """The steps that have finished since the last call, at most once a second; no step is left out."""

    def ended(self, result: Result | None, folder: Path) -> None:
        """The run has ended, with its result and the findings of the core's rules; None if llmperf itself failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logger:
    """Destination of `llmperf run --log NAME=VALUE`."""

    name: str
    """The name before the `=`: `tensorboard`."""
    value: str
    """Placeholder of the value after it, for messages and help: `DIR`."""
    open: Callable[[str], Observer]
    """Makes the observer of one run from the value. Called before anything is started, once for a check, then again for
    each run. UserError for a value that cannot be used, or a library that is not installed. Heavy imports belong here:
    an observer's calls are limited to 30 seconds, this one is not."""
