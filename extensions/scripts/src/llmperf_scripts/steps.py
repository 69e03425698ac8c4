"""The steps of an external script: read from its lines by the framework, checked against the plan, and recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal

from llmperf.errors import PluginError, RunFailed
from llmperf.measuring.loop import NonfiniteLoss, Window, finite
from llmperf.plugins.faults import blaming, of_kind, who
from llmperf.plugins.loading import Plugins
from llmperf.runfolder.recorder import Moment, Recorder
from llmperf.types.logged import LoggedFacts, LoggedFailure, LoggedStep
from llmperf.types.plan import Plan
from llmperf.types.records import StepClock, StepRecord

HOOK = "llmperf_parse_log"
Logged = LoggedStep | LoggedFacts | LoggedFailure
KINDS: tuple[type[Logged], ...] = (LoggedStep, LoggedFacts, LoggedFailure)
MAX_ANSWERS = 100
"""Answers that a plugin may give for one line."""
MAX_SHOWN = 80
AT_ONCE_SECONDS = 0.001
"""Lines that arrive closer together than this were buffered and written in one block, unless steps are as short."""
LATE_SECONDS = 0.1
"""Delay of a line on a busy host."""
LATE_SHARE = 0.02
"""Rounding of step times that a script prints with few digits, as a share of their sum."""

Enter = Callable[[Literal["warming up", "measuring", "evaluating"], Moment], None]


class LineParser:
    """Passes lines to the plugin's `llmperf_parse_log` and checks its answers."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins
        self._owner = plugins.owner(HOOK)
        self.count = 0
        """Lines parsed so far."""
        self.who = who(self._owner)
        """The plugin's name in messages, such as `framework 'acme' (llmperf-acme)`."""

    def parse(self, line: str) -> tuple[Logged, ...]:
        """The answers for one line, in the plugin's order; PluginError if the plugin raises or an answer is invalid."""
        self.count += 1
        with blaming(self._owner, HOOK):
            given = self._plugins.ask(HOOK, line=line)
        if given is None:
            return ()
        if isinstance(given, (*KINDS, str, bytes, dict)) or not isinstance(given, Iterable):
            return (self._checked(given),)
        answers: list[Any] = []
        with blaming(self._owner, HOOK):
            for answer in given:
                answers.append(answer)
                if len(answers) > MAX_ANSWERS:
                    raise PluginError(f"{self.who}: {HOOK} gave more than {MAX_ANSWERS} answers for one line")
        return tuple(map(self._checked, answers))

    def _checked(self, answer: Any) -> Logged:
        kind = next((kind for kind in KINDS if isinstance(answer, kind)), None)
        if kind is None:
            names = ", ".join(kind.__name__ for kind in KINDS)
            expected = f"one of {names}, several of them, or None"
            raise PluginError(f"{self.who}: {HOOK}: expected {expected}, found {repr(answer)[:MAX_SHOWN]}")
        logged: Logged = of_kind(self._owner, HOOK, answer, kind)
        # a loss may be NaN: the run then fails for that reason, which is not the plugin's fault
        for name, least in (("step", 1), ("seconds", 0), ("tokens", 0), ("peak_memory_bytes", 0), ("parameters", 1)):
            value = getattr(logged, name, None)
            if value is not None and not (math.isfinite(value) and value >= least):
                expected = "steps counted from 1" if name == "step" else f"a number of at least {least}"
                where = f"{self.who}: {HOOK}: {type(logged).__name__}.{name}"
                raise PluginError(f"{where}: expected {expected}, found {value}")
        return logged


class ScriptSteps:
    """Records each step once, in order, and measures the window between the arrivals of the lines at its edges.

    `began` is the moment at which the script was started; `who` names the plugin in messages.
    """

    def __init__(self, plan: Plan, rank: int, recorder: Recorder, enter: Enter, began: Moment, who: str) -> None:
        self._contract = plan.spec.contract
        self._batch = plan.batch
        self._rank = rank
        self._recorder = recorder
        self._enter = enter
        self._who = who
        self._begin = self._end = began
        self._own_seconds = self._hasty_seconds = 0.0
        self._hasty = self._skipped = 0
        self.clock: StepClock = "script"
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

        Without a time of the script's own, a step took the time since the line before (the start, for step 1).

        RunFailed if a step is missing before it, if it is one too many, or if its tokens are not the plan's;
        NonfiniteLoss if its loss is NaN or infinite.
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
            raise NonfiniteLoss(f"the loss of step {step.step} is {step.loss}")

    def take_record(self, record: StepRecord) -> None:
        """Record a step that the reporting rank has recorded: this rank did it too; its tokens are counted there."""
        if record.step == self.done + 1:
            now = self._begin = self._end = Moment.now()  # the reporting rank may run on another host, by other clocks
            own = replace(record, rank=self._rank, tokens=0, loss=None, nonfinite=None, grad_norm=None)
            self._write(replace(own, at=now.at, monotonic=now.monotonic))

    def window(self) -> Window:
        """The measured steps; RunFailed if the script ended before its last step or printed steps in blocks."""
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
        return Window(steps=measured, tokens=(measured - self._skipped) * self._batch.tokens_per_step, seconds=seconds)

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
