"""The steps of an external script: read from its lines by the framework, checked against the plan, and recorded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from llmperf.errors import PluginError, RunFailed
from llmperf.launching import Moment, finite
from llmperf.types import LoggedFacts, LoggedFailure, LoggedStep, Plan, StepRecord

HOOK = "llmperf_parse_log"
Logged = LoggedStep | LoggedFacts | LoggedFailure
KINDS: tuple[type[Logged], ...] = (LoggedStep, LoggedFacts, LoggedFailure)
AT_ONCE_SECONDS = 0.001
"""Lines that arrive closer together than this were buffered and written in one block, unless steps are as short."""
LATE_SECONDS = 0.1
"""Delay of a line on a busy host."""
LATE_SHARE = 0.02
"""Rounding of step times that a script prints with few digits, as a share of their sum."""


def logged_in(line: str, answers: Callable[..., tuple[Logged, ...]], who: str) -> tuple[Logged, ...]:
    """What the framework `who` finds in a line, by `RankAtTask.answers`; PluginError for a wrong answer."""
    found = answers(HOOK, KINDS, line=line)
    for logged in found:
        # a loss may be NaN: the run then fails for that reason, which is not the plugin's fault
        for name, least in (("step", 1), ("seconds", 0), ("tokens", 0), ("peak_memory_bytes", 0), ("parameters", 1)):
            value = getattr(logged, name, None)
            if value is not None and not (math.isfinite(value) and value >= least):
                expected = "steps counted from 1" if name == "step" else f"a number of at least {least}"
                raise PluginError(f"{who}: {HOOK}: {type(logged).__name__}.{name}: expected {expected}, found {value}")
    return found


class ScriptSteps:
    """Records each step once, in order, and measures the window between the arrivals of the lines at its edges."""

    def __init__(
        self,
        plan: Plan,
        rank: int,
        record: Callable[[object], None],
        enter: Callable[..., None],
        began: Moment,
        who: str,
    ) -> None:
        self._contract = plan.spec.contract
        self._batch = plan.batch
        self._rank = rank
        self._record = record
        self._enter = enter
        self._who = who
        self._begin = self._end = began
        self._own_seconds = self._hasty_seconds = 0.0
        self._hasty = self._skipped = 0
        self.clock: Literal["device events", "script", "line arrivals"] = "script"
        """Where the measured step times come from."""
        self.done = 0
        """Steps recorded so far."""

    @property
    def missing(self) -> int:
        """Planned steps that have not been recorded yet."""
        return self._contract.steps - self.done

    def early_end(self) -> str:
        """The message for a script that ends with status 0 before its last step: rank, phase, steps done."""
        phase = (
            "building" if not self.done else "measuring" if self.done >= self._contract.warmup_steps else "warming up"
        )
        done = f"after {self.done} of {self._contract.steps} steps"
        return f"{self._who}: the script of rank {self._rank} ended with status 0 while {phase}, {done}"

    def take_line(self, step: LoggedStep, arrived: Moment) -> None:
        """Record a step that this rank's own output reports; a repeated step is ignored.

        RunFailed for a missing step, one too many, other tokens than the plan's, or a loss that is NaN or infinite.
        """
        if step.step <= self.done:
            return
        if not self.missing:
            raise RunFailed(f"{self._who}: the script continues after the last of {self.done} steps")
        if step.step > self.done + 1:
            reported = f"the script reports step {step.step} after {self.done} of {self._contract.steps} steps"
            expected = f"expected step {self.done + 1}: each step is reported, and the first is step 1"
            raise RunFailed(f"{self._who}: {reported}; {expected}")
        planned = self._batch.tokens_per_step
        if step.tokens is not None and step.tokens != planned:
            product = f"global batch {self._batch.global_batch} x {self._batch.seq_len} tokens"
            found = f"the script trained {step.tokens}"
            raise RunFailed(f"{self._who}: tokens of step {step.step}: expected {planned} ({product}), {found}")
        if step.step == 1 and step.seconds is None and self._contract.warmup_steps == 0:
            raise RunFailed(
                f"{self._who}: the script prints no step times, so the beginning of step 1 is unknown:"
                " expected at least 1 warm-up step; nearest: --set warmup_steps=1"
            )
        measured, gap = step.step > self._contract.warmup_steps, arrived.monotonic - self._end.monotonic
        seconds = max(0.0, gap) if step.seconds is None else step.seconds
        if measured:
            own_seconds = step.seconds or 0.0
            self.clock = "line arrivals" if step.seconds is None else self.clock
            self._own_seconds += own_seconds
            if step.step > 1 and gap < AT_ONCE_SECONDS:
                self._hasty += 1
                self._hasty_seconds += own_seconds if gap < own_seconds / 2 else 0.0
        if step.step == self._contract.warmup_steps:
            self._begin = arrived
        elif step.step == 1 and self._contract.warmup_steps == 0:
            self._begin = arrived.earlier(seconds)
        self._end = arrived
        loss, nonfinite = finite(step.loss)
        self._write(
            StepRecord(
                rank=self._rank,
                step=step.step,
                measured=measured,
                at=arrived.at,
                monotonic=arrived.monotonic,
                step_seconds=seconds,
                tokens=self._batch.tokens_per_step,
                loss=loss,
                nonfinite=nonfinite,
                grad_norm=finite(step.grad_norm)[0],
                skipped=step.skipped,
            )
        )
        if step.loss is not None and not math.isfinite(step.loss):
            raise RunFailed(f"the loss of step {step.step} is {step.loss}")

    def take_record(self, record: StepRecord) -> None:
        """Record a step that the reporting rank has recorded: this rank did it too; its tokens are counted there."""
        if record.step == self.done + 1:
            now = self._begin = self._end = Moment.now()  # the reporting rank may run on another host, by other clocks
            own = replace(record, rank=self._rank, tokens=0, loss=None, nonfinite=None, grad_norm=None)
            self._write(replace(own, at=now.at, monotonic=now.monotonic))

    def window(self) -> tuple[int, int, float]:
        """Measured steps, their tokens and seconds; RunFailed for missing steps, or steps printed in blocks."""
        steps, warmup = self._contract.steps, self._contract.warmup_steps
        if self.missing:
            raise RunFailed(self.early_end())
        measured, seconds = steps - warmup, max(0.0, self._end.monotonic - self._begin.monotonic)
        missing = self._own_seconds - seconds
        short = missing > max(LATE_SECONDS, LATE_SHARE * self._own_seconds) and self._hasty_seconds > missing / 2
        untimed = self._own_seconds < measured * AT_ONCE_SECONDS and self._hasty > measured / 2
        if short or untimed:
            own = f", its steps took {self._own_seconds:.3g} s by the script's clock" if self._own_seconds else ""
            raise RunFailed(
                f"{self._who}: {self._hasty} of {measured} measured steps arrived together with the step before:"
                f" the window is {seconds:.3g} s{own}; flush each line as it is printed, as python -u does"
            )
        return measured, (measured - self._skipped) * self._batch.tokens_per_step, seconds

    def _write(self, record: StepRecord) -> None:
        if self.done == 0:
            if self._contract.warmup_steps:
                self._enter("warming up", Moment(record.at, record.monotonic))
            else:
                self._enter("measuring", self._begin)
        self._record(record)
        self._skipped += bool(record.measured and record.skipped)
        self.done += 1
        if self.done == self._contract.warmup_steps:
            self._enter("measuring", self._begin)
        if self.done == self._contract.steps:
            self._enter("evaluating", self._end)
