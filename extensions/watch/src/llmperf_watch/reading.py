"""Lines of output to steps, by a log profile that is given or that fits."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache

from llmperf_watch.profiles import MAX_LINE, OF_RUN, Profile

ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
"""Colours and movements of the cursor."""
DECIDED = 20
"""Steps after which the profile that has read most is kept, and the others are dropped."""
STAMP = re.compile(r"(\d{4}[-/]\d\d[-/]\d\d)[ T](\d\d):(\d\d):(\d\d)([.,]\d{1,6})?")
MAX_STEPS = 2_000_000
"""Reported steps of one output that are kept; later ones are only counted."""


def stamp(line: str) -> tuple[float, bool] | None:
    """Date and time near the begin of a line in seconds, and whether these are whole; None without one."""
    match = STAMP.search(line, 0, 200)
    if match is None:
        return None
    day, hours, minutes, seconds, part = match.groups()
    try:
        exact = float(seconds + (part or "").replace(",", "."))
        return day_number(day) * 86400.0 + int(hours) * 3600 + int(minutes) * 60 + exact, part is None
    except ValueError:  # no date
        return None


@lru_cache(maxsize=4)
def day_number(text: str) -> int:
    """Days since the year 1 of `2026-11-28`; ValueError for no date."""
    return date.fromisoformat(text.replace("/", "-")).toordinal()


@dataclass(slots=True)
class Reported:
    """One reported step."""

    at: float | None
    """Seconds on our clock; None for a log that is read later."""
    values: dict[str, float]
    """By field."""
    attempt: int = 0
    """How many times the program had begun again."""
    global_batch: float | None = None
    """Sequences of this step, if its line has them."""


@dataclass(slots=True)
class Reading:
    """What one profile reads of the lines that it is given, in their order."""

    profile: Profile
    steps: list[Reported] = field(default_factory=list)
    of_run: dict[str, float] = field(default_factory=dict)
    """Facts of the whole run that the program printed."""
    score: int = 0
    """Figures that were read."""
    dropped: int = 0
    """Steps beyond MAX_STEPS."""
    _total: float | None = None
    _trained: bool = False
    """A loss was read."""
    _before: float | None = None
    _seen: tuple[float, float] | None = None

    def add(self, line: str, at: float | None) -> None:
        """Read one line.

        A line without a step number belongs to the step reported last. Several ranks may print one step: the first line
        counts. A step number that goes back further than to the step before is a program that began again.
        """
        values = self.profile.values(line)
        if values is None:
            return
        total = values.pop("total_steps", None)
        if total is not None:
            self._total = total if self._total is None else self._total
            ended = bool(self.steps) and self.steps[-1].values.get("step") == self._total
            if ended and not self._trained and total > self._total:
                # a bar before it, such as of a download, that has ended
                self.steps, self._total, self._before = [], total, None
            if total != self._total:
                return  # another progress bar, such as that of an evaluation
        if self.profile.redrawn and self.steps and values.get("step") == 0:
            return  # a bar that is set back before it gets the number of the next epoch
        self.score += len(values)
        self._trained = self._trained or "loss" in values
        size = values.get("global_batch") if "step" in values else None
        for name in OF_RUN:
            if name in values:
                self.of_run[name] = values.pop(name)
        if at is None and "time" not in values and (printed := stamp(line)) is not None:
            values["time"], whole = printed
            if whole:
                self.of_run["time_resolution"] = 1.0
        self._turn(values, total)
        if not values.keys() - {"time"}:
            return
        last = self.steps[-1] if self.steps else None
        step = values.get("step")
        if last is not None and (step is None or step == last.values.get("step")):
            if self.profile.redrawn or not any(name in last.values for name in values if name not in ("step", "time")):
                last.values.update(values | {name: last.values[name] for name in ("time",) if name in last.values})
                return
            if step is not None:
                return
        elif last is not None and step is not None and step == self._before:
            return
        if step is None and "loss" not in values:
            return
        attempt = 0 if last is None else last.attempt
        number = None if last is None else last.values.get("step")
        if step is not None and number is not None and step < number:
            attempt += 1
        if len(self.steps) >= MAX_STEPS:
            self.dropped += 1
            return
        self._before = number
        self.steps.append(Reported(at, values, attempt, size))

    def _turn(self, values: dict[str, float], total: float | None) -> None:
        """Replace what counts from the start by the number and the tokens of a step."""
        if (epoch := values.pop("epoch", None)) is not None and "step" in values and total:
            values["step"] += epoch * total
        if (samples := values.pop("samples_seen", None)) is not None and (batch := self.of_run.get("global_batch")):
            values.setdefault("step", samples / batch)
        if (tokens := values.pop("tokens_seen", None)) is None:
            return
        step = values.get("step", self.steps[-1].values.get("step") if self.steps else None)
        if step is not None:
            if self._seen is not None and step > self._seen[0] and tokens > self._seen[1]:
                values["tokens"] = (tokens - self._seen[1]) / (step - self._seen[0])
            self._seen = step, tokens


class Reader:
    """Reads lines by every profile until one of them is clearly the one that fits."""

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self._readings = [Reading(profile) for profile in profiles]
        self._open = len(self._readings) > 1
        self.lines = 0
        """Lines so far."""

    def add(self, line: str, at: float | None = None) -> None:
        """Read one line, without its end; `at` is when it came, in seconds."""
        self.lines += 1
        if len(line) > MAX_LINE:
            line = line[:MAX_LINE]
        if "\x1b" in line:
            line = ESCAPES.sub("", line)
        for reading in self._readings:
            reading.add(line, at)
        if self._open:
            best = self.best()
            if best is not None and len(best.steps) >= DECIDED:
                self._readings, self._open = [best], False

    def best(self) -> Reading | None:
        """The reading with most figures; None where no profile has read a step."""
        found = [reading for reading in self._readings if reading.steps]
        return max(found, key=lambda reading: reading.score, default=None)
