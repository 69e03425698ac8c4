"""The measured loop: the core's stopwatch around a trainer's steps.

The order is: warm-up steps, an edge where the host waits for the device, measured steps, a second edge. Between the
edges the host runs up to MAX_STEPS_AHEAD steps ahead of the device: step times come from device events, and a loss is
read when it has arrived.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from llmperf.errors import PluginError, RunFailed
from llmperf.runfolder.reader import Moment, Recorder
from llmperf.types.devices import Device, DeviceEvent
from llmperf.types.records import DeferredScalar, RankRecords, StepOutput, StepRecord, Trainer

MAX_STEPS_AHEAD = 8
"""Steps that the host may be ahead of the device: enough work that the device never waits, and few enough that steps
are recorded regularly, so that the run does not look hung."""
POLL_SECONDS = 0.0005

Scalar = float | DeferredScalar | None
Enter = Callable[[Literal["measuring", "evaluating"], Moment], None]


class NonfiniteLoss(RunFailed):
    """A loss is NaN or infinite: further training would be meaningless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One rank's measured steps between two synchronised edges."""

    steps: int
    tokens: int
    seconds: float
    communication_seconds: float | None = None
    """Time in it in which computation waited for communication; None if the trainer does not know."""


class _Pending(NamedTuple):
    step: int
    measured: bool
    handed_over: Moment
    begin: DeviceEvent
    end: DeviceEvent
    output: StepOutput


class MeasuredLoop:
    """Runs a trainer's steps on one rank and records each of them as soon as it is known."""

    def __init__(
        self, trainer: Trainer, device: Device, recorder: Recorder, rank: int, further: Sequence[RankRecords] = ()
    ) -> None:
        self._trainer = trainer
        self._device = device
        self._recorder = recorder
        self._rank = rank
        self._further = further
        self._pending: deque[_Pending] = deque()
        self._loss_of_step_1: Scalar = None
        self._tokens = 0
        """Tokens of the measured steps that are recorded, without skipped steps."""

    def run(self, steps: int, warmup_steps: int, enter: Enter) -> Window:
        """All steps, the first `warmup_steps` not measured; `enter` gets each edge. NonfiniteLoss for a bad loss."""
        self._steps(1, warmup_steps, measured=False)
        for part in self._further:
            if warmup_steps:
                self._record_further(part, part.warmed_up(self._loss_of_step_1))
        self._device.synchronize()
        before = seconds_of(self._trainer, "communication_seconds")
        for part in self._further:
            part.begin()
        begin = Moment.now()
        enter("measuring", begin)
        self._steps(warmup_steps + 1, steps, measured=True)
        self._device.synchronize()
        end = Moment.now()
        while self._pending:
            self._record(self._pending.popleft())
        enter("evaluating", end)
        after, seconds = seconds_of(self._trainer, "communication_seconds"), end.monotonic - begin.monotonic
        for part in self._further:
            self._record_further(part, part.end())
        communication = None if before is None or after is None else min(seconds, max(0.0, after - before))
        measured = steps - warmup_steps
        return Window(steps=measured, tokens=self._tokens, seconds=seconds, communication_seconds=communication)

    def _steps(self, first: int, last: int, *, measured: bool) -> None:
        train_step, event, now = self._trainer.train_step, self._device.event, Moment.now
        begin = event()
        for step in range(first, last + 1):
            output = train_step()
            end = event()
            _check(output, step)
            if step == 1:
                self._loss_of_step_1 = output.loss
            self._pending.append(_Pending(step, measured, now(), begin, end, output))
            begin = end
            self._record_known()
            while len(self._pending) > MAX_STEPS_AHEAD:
                time.sleep(POLL_SECONDS)
                self._record_known()
        while len(self._pending) > 1:  # `synchronize` waits for the last one: a poll could delay the edge
            time.sleep(POLL_SECONDS)
            self._record_known()

    def _record_further(self, part: RankRecords, record: object) -> None:
        if record is None:
            return
        if getattr(record, "kind", None) != part.kind or getattr(record, "rank", None) != self._rank:
            expected = f"expected a record of kind {part.kind!r} of rank {self._rank}"
            raise PluginError(f"llmperf_rank_records: {expected}, found {repr(record)[:80]}")
        self._recorder.write(record)

    def _record_known(self) -> None:
        """Record the steps that the device has finished, in order, without waiting."""
        pending = self._pending
        while pending and pending[0].end.ready():
            output = pending[0].output
            for value in (output.loss, output.grad_norm, output.skipped):
                if not (value is None or isinstance(value, (float, int)) or value.ready()):
                    return
            self._record(pending.popleft())

    def _record(self, pending: _Pending) -> None:
        loss, nonfinite = finite(pending.output.loss)
        skipped = None if pending.output.skipped is None else bool(float(pending.output.skipped))
        if pending.measured and not skipped:
            self._tokens += pending.output.tokens
        self._recorder.write(
            StepRecord(
                rank=self._rank,
                step=pending.step,
                measured=pending.measured,
                at=pending.handed_over.at,
                monotonic=pending.handed_over.monotonic,
                step_seconds=max(0.0, pending.end.seconds_since(pending.begin)),
                tokens=pending.output.tokens,
                loss=loss,
                nonfinite=nonfinite,
                grad_norm=finite(pending.output.grad_norm)[0],
                skipped=skipped,
            )
        )
        if nonfinite is not None:
            raise NonfiniteLoss(f"the loss of step {pending.step} is {nonfinite}")


def seconds_of(trainer: Trainer, name: Literal["communication_seconds", "compile_seconds"]) -> float | None:
    """Seconds so far in which the trainer waited for communication, or a compiler worked; None if it does not know."""
    query: Callable[[], object] | None = getattr(trainer, name, None)
    seconds = None if query is None else query()
    if seconds is None:
        return None
    if not isinstance(seconds, (float, int)) or not 0 <= seconds < math.inf:
        raise wrong("seconds of at least 0 or None", f"{name}()", repr(seconds)[:80])
    return float(seconds)


def wrong(expected: str, what: str, found: str) -> PluginError:
    """The error for a wrong answer of a trainer."""
    return PluginError(f"the trainer of llmperf_build_trainer: expected {expected} as {what}, found {found}")


def _check(output: object, step: int) -> None:
    """PluginError if a step did not return a StepOutput of a token count and scalars."""
    if not isinstance(output, StepOutput):
        raise wrong("a StepOutput", f"answer of train_step() in step {step}", _type_name(output))
    for name, value in (("loss", output.loss), ("grad_norm", output.grad_norm)):
        if not (value is None or isinstance(value, (float, int)) or callable(getattr(value, "ready", None))):
            raise wrong("a float, a DeferredScalar or None", f"{name} of step {step}", _type_name(value))
    skipped = output.skipped
    if not (skipped is None or isinstance(skipped, bool) or callable(getattr(skipped, "ready", None))):
        raise wrong("true, false, a DeferredScalar or None", f"skipped of step {step}", _type_name(skipped))
    if not isinstance(output.tokens, int) or output.tokens < 0:
        raise wrong("a whole number of at least 0", f"tokens of step {step}", repr(output.tokens))


def _type_name(value: object) -> str:
    return "None" if value is None else f"{type(value).__module__}.{type(value).__qualname__}"


def finite(value: Scalar) -> tuple[float | None, Literal["nan", "inf", "-inf"] | None]:
    """A scalar as a finite number, or None and what it is instead."""
    if value is None:
        return None, None
    number = float(value)
    if math.isfinite(number):
        return number, None
    if math.isnan(number):
        return None, "nan"
    return None, "inf" if number > 0 else "-inf"
