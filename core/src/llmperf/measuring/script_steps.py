"""The steps of an external script as records of one rank, held to the plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from llmperf.errors import RunFailed
from llmperf.measuring.loop import NonfiniteLoss, Window, finite
from llmperf.measuring.moment import Moment
from llmperf.measuring.script_output import Line
from llmperf.runfolder.recorder import Recorder
from llmperf.types.plan import Plan
from llmperf.types.records import LoggedStep, StepRecord

AT_ONCE_SECONDS = 0.001
"""Lines that come closer than this were held back and came in one block, unless steps are as short."""
LATE_SECONDS = 0.1
"""What a busy host may hold a line back."""
LATE_SHARE = 0.02
"""Of the steps' own times, which a script prints with few digits."""

Enter = Callable[[Literal["warming up", "measuring", "evaluating"], Moment], None]


class ScriptSteps:
    """Records each step once and in order, and keeps the window between the arrivals of the lines at its edges."""

    def __init__(self, plan: Plan, rank: int, recorder: Recorder, enter: Enter) -> None:
        self._contract = plan.spec.contract
        self._tokens = plan.batch.tokens_per_step
        self._rank = rank
        self._recorder = recorder
        self._enter = enter
        self._begin = self._end = Moment(0.0, 0.0)
        self._own_seconds = self._hasty_seconds = 0.0
        self._hasty = self._skipped = 0
        self.done = 0
        """Steps so far."""

    @property
    def missing(self) -> int:
        """Steps that have not been told of yet."""
        return self._contract.steps - self.done

    def take_line(self, step: LoggedStep, line: Line) -> None:
        """A step that this rank's own output tells of; one that came before is passed over.

        RunFailed if a step is missing before it or it is one too many; NonfiniteLoss if its loss is no number.
        """
        if step.step <= self.done:
            return
        if self.done == self._contract.steps:
            raise RunFailed(f"the script goes on after the last of {self.done} steps")
        if step.step > self.done + 1:
            told = f"the script tells of step {step.step} after {self.done} of {self._contract.steps} steps"
            raise RunFailed(f"{told}; expected step {self.done + 1}: each step is reported, and the first is step 1")
        self._note_haste(step, line.moment)
        self._set_edges(step, line.moment)
        self._write(self._record(step, line.moment))
        if step.loss is not None and not math.isfinite(step.loss):
            raise NonfiniteLoss(f"the loss of step {step.step} is {step.loss}")

    def take_record(self, record: StepRecord) -> None:
        """A step that another rank has told of: this rank did it too, and its tokens are counted there."""
        if record.step == self.done + 1:
            now = self._begin = self._end = Moment.now()  # the clocks of the rank that printed it may be another host's
            told = replace(record, rank=self._rank, tokens=0, loss=None, nonfinite=None, grad_norm=None)
            self._write(replace(told, at=now.at, monotonic=now.monotonic))

    def window(self) -> Window:
        """The measured steps; RunFailed if the script ended before its last step, or told of many at once."""
        steps, warmup = self._contract.steps, self._contract.warmup_steps
        if self.done < steps:
            raise RunFailed(f"the script ended well after {self.done} of {steps} steps")
        measured, seconds = steps - warmup, max(0.0, self._end.monotonic - self._begin.monotonic)
        self._check_flushed(measured, seconds)
        return Window(steps=measured, tokens=(measured - self._skipped) * self._tokens, seconds=seconds)

    def _note_haste(self, step: LoggedStep, moment: Moment) -> None:
        """Of the measured steps: what they took, and which of them came at once with the step before."""
        if step.step <= self._contract.warmup_steps:
            return
        self._own_seconds += step.seconds
        gap = moment.monotonic - self._end.monotonic
        if step.step > 1 and gap < AT_ONCE_SECONDS:
            self._hasty += 1
            self._hasty_seconds += step.seconds if gap < step.seconds / 2 else 0.0

    def _check_flushed(self, measured: int, seconds: float) -> None:
        """RunFailed if lines came in blocks and the window is shorter than its steps, or these tell no time."""
        missing = self._own_seconds - seconds
        short = missing > max(LATE_SECONDS, LATE_SHARE * self._own_seconds) and self._hasty_seconds > missing / 2
        blind = self._own_seconds < measured * AT_ONCE_SECONDS and self._hasty > measured / 2
        if short or blind:
            raise RunFailed(
                f"{self._hasty} of {measured} measured steps were told at once with the step before: the window is"
                f" {seconds:.3g} s, its steps took {self._own_seconds:.3g} s by the script's clock;"
                " flush each line as it is printed, as python -u does"
            )

    def _set_edges(self, step: LoggedStep, moment: Moment) -> None:
        """The window begins with the last warm-up line; without one, as long before the first as that step took."""
        if step.step == self._contract.warmup_steps:
            self._begin = moment
        elif step.step == 1 and self._contract.warmup_steps == 0:
            self._begin = moment.earlier(step.seconds)
        self._end = moment

    def _record(self, step: LoggedStep, moment: Moment) -> StepRecord:
        loss, nonfinite = finite(step.loss)
        return StepRecord(
            rank=self._rank,
            step=step.step,
            measured=step.step > self._contract.warmup_steps,
            at=moment.at,
            monotonic=moment.monotonic,
            step_seconds=step.seconds,
            tokens=self._tokens,
            loss=loss,
            nonfinite=nonfinite,
            grad_norm=finite(step.grad_norm)[0],
            skipped=step.skipped,
        )

    def _write(self, record: StepRecord) -> None:
        if self.done == 0:
            if self._contract.warmup_steps:
                self._enter("warming up", Moment(record.at, record.monotonic))
            else:
                self._enter("measuring", self._begin)
        self._recorder.write(record)
        self._skipped += bool(record.measured and record.skipped)
        self.done += 1
        if self.done == self._contract.warmup_steps:
            self._enter("measuring", self._begin)
        if self.done == self._contract.steps:
            self._enter("evaluating", self._end)
