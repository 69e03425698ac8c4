"""Observers of a rank: when data are drawn, how fast clocks and events run, which functions are replaced."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from inspect import isclass, isroutine
from pathlib import Path
from types import ModuleType
from typing import Any

from llmperf import open_batches
from llmperf.types import Device, DeviceEvent, Plan

from llmperf_testing.late_tokens import LateTokens
from llmperf_testing.observations import Draw, Timed

CLOCKS = ("time", "monotonic", "perf_counter")
"""Functions of `time` that figures rest on."""
SHORTEST_SECONDS = 0.6
"""The clocks are compared over at least this long."""
ROOTS = ("llmperf", "time")
"""Packages whose functions a plugin must leave alone."""


@dataclass(slots=True)
class WatchedData:
    """Notes each micro batch that a rank draws, in its step, and gives it the kit's tokens where they are due."""

    plan: Plan
    rank: int
    """The data-parallel rank."""
    late: LateTokens | None
    step: int = 0
    """The step that is being taken; 0 before the first."""
    draws: list[Draw] = field(default_factory=list)

    def watch(self) -> None:
        """From now on, in this process."""
        with open_batches(self.plan, self.rank) as some:
            kind: Any = type(some)
        original, counts = kind.next_micro_batch, dict[Any, int]()

        def next_micro_batch(batches: Any) -> Any:
            index = counts.get(batches, 0)
            counts[batches] = index + 1
            self.draws.append(Draw(index=index, step=self.step))
            rows = original(batches)
            return rows if self.late is None else self.late.micro_batch(self.plan, self.rank, index, rows)

        kind.next_micro_batch = next_micro_batch


@dataclass(frozen=True, slots=True)
class Bracket:
    """The process's clocks just before and just after the kernel gave a file its time of change."""

    before: tuple[float, ...]
    file_seconds: float
    after: tuple[float, ...]

    @classmethod
    def now(cls, path: Path) -> Bracket:
        """This moment; the file is written."""
        before = _readings()
        path.write_bytes(b"0")
        after = _readings()
        return cls(before, path.stat().st_mtime_ns / 1e9, after)


def _readings() -> tuple[float, ...]:
    return tuple(getattr(time, name)() for name in CLOCKS)


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """A stretch of a rank's life by all its clocks; begun when the device has no work left."""

    device: Device
    file: Path
    began: Bracket
    set_at: tuple[float, float]
    """Just before and just after the first event was set."""
    event: DeviceEvent

    @classmethod
    def begin(cls, device: Device, file: Path) -> Stopwatch:
        """Now."""
        device.synchronize()
        began, before = Bracket.now(file), time.perf_counter()
        event = device.event()
        return cls(device, file, began, (before, time.perf_counter()), event)

    def end(self) -> tuple[Timed, ...]:
        """Each clock over the stretch, and the device's events."""
        before = time.perf_counter()
        last = self.device.event()
        self.device.synchronize()
        after = time.perf_counter()
        for _ in range(100):
            if last.ready():
                break
            time.sleep(0.01)
        events = Timed(
            name="events of the device",
            seconds=last.seconds_since(self.event),
            least_seconds=before - self.set_at[1],
            most_seconds=after - self.set_at[0],
        )
        time.sleep(max(0.0, SHORTEST_SECONDS - (after - self.set_at[0])))
        ended = Bracket.now(self.file)
        by_file = ended.file_seconds - self.began.file_seconds
        clocks = (
            Timed(
                name=f"time.{name}()",
                seconds=by_file,
                least_seconds=ended.before[number] - self.began.after[number],
                most_seconds=ended.after[number] - self.began.before[number],
            )
            for number, name in enumerate(CLOCKS)
        )
        return (events, *clocks)


def functions() -> dict[str, Any]:
    """The functions, methods and classes of llmperf and of `time`, by their full names."""
    return {
        f"{name}.{path}": value
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType) and name.split(".")[0] in ROOTS
        for path, value in _members(module)
    }


def _members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name, value in list(vars(module).items()):
        if isclass(value) and value.__module__ == module.__name__:
            yield from ((f"{name}.{inner}", member) for inner, member in list(vars(value).items()) if _is_code(member))
        if isclass(value) or isroutine(value):
            yield name, value


def _is_code(member: object) -> bool:
    return isroutine(member) or isinstance(member, (property, classmethod, staticmethod))


def replaced_since(before: dict[str, Any]) -> tuple[str, ...]:
    """Names of functions that are others than before."""
    now = functions()
    return tuple(sorted(name for name, value in before.items() if now.get(name, value) is not value))
