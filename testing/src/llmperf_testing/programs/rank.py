"""A rank that takes a plan's steps and leaves with an error, and notes when data are drawn and how clocks run."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from inspect import isclass, isroutine
from pathlib import Path
from types import ModuleType
from typing import Any

from llmperf import open_batches
from llmperf.files import json_files
from llmperf.measuring.worker import plugins_of
from llmperf.runfolder import filenames
from llmperf.types import Device, DeviceEvent, Plan, Trainer

from llmperf_testing.drawn_case import LateTokens
from llmperf_testing.observations import Draw, RankEnd, Timed
from llmperf_testing.programs.fresh import error_line

PATIENCE_SECONDS = 60.0
CLOCKS = ("time", "monotonic", "perf_counter")
"""Functions of `time` that figures rest on."""
SHORTEST_SECONDS = 0.6
"""The clocks are compared over at least this long."""
ROOTS = ("llmperf", "time")
"""Packages whose functions a plugin must leave alone."""


def seen(run: str, late: dict[str, int] | None) -> RankEnd:
    """How the rank of this process lives and ends."""
    folder, rank = Path(run), int(os.environ["RANK"])
    plan = json_files.load(folder / filenames.PLAN, Plan)
    try:
        return lived(plan, rank, folder, LateTokens(**late) if late else None)
    except Exception as error:
        return RankEnd(rank=rank, error=error_line(error))


def lived(plan: Plan, rank: int, folder: Path, late: LateTokens | None = None) -> RankEnd:
    """All steps, an evaluation, an error, the end."""
    data = WatchedData(plan, plan.layout.data_parallel_rank(rank), late)
    data.watch()
    before = functions()
    plugins = plugins_of(plan)
    device: Device = plugins.ask("llmperf_setup_device", plan=plan, local_rank=int(os.environ["LOCAL_RANK"]))
    trainer: Trainer = plugins.ask("llmperf_build_trainer", plan=plan, device=device)
    trainer.__enter__()
    stopwatch = Stopwatch.begin(device, folder / f"clock-{rank}")
    outputs, steps = [], plan.spec.contract.steps
    for data.step in range(1, steps + 1):
        with operations_of(last=data.step == steps) as operations:
            outputs.append(trainer.train_step())
        if data.step == 1:
            sequences = first_losses(trainer)
    clocks, draws = stopwatch.end(), tuple(data.draws)
    known = RankEnd(
        rank=rank,
        losses=tuple(None if one.loss is None else float(one.loss) for one in outputs),
        grad_norms=tuple(None if one.grad_norm is None else float(one.grad_norm) for one in outputs),
        sequences=sequences,
        draws=draws,
        clocks=clocks,
        replaced=replaced_since(before),
        kernels={str(name): str(kernel) for name, kernel in getattr(trainer, "kernels", {}).items()},
        operations=tuple(sorted(operations)),
    )
    known = evaluated(known, trainer)
    for other in range(rank):
        wait_for(folder / f"left-{other}")
    known = left(known, trainer)
    (folder / f"left-{rank}").touch()
    for other in range(plan.layout.world_size):  # the store of rank 0 stays until all have left
        wait_for(folder / f"left-{other}")
    return closed(known, trainer)


@contextmanager
def operations_of(*, last: bool) -> Iterator[set[str]]:
    """The names of what a step calls, filled in after it if it is the last and torch is loaded."""
    names: set[str] = set()
    if not last or "torch" not in sys.modules:
        yield names
        return
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        yield names
    names.update(str(event.name) for event in profiler.events() or ())


def first_losses(trainer: Trainer) -> tuple[float, ...] | None:
    """The losses of the sequences of step 1, where the trainer offers them."""
    query = getattr(trainer, "first_losses", None)
    losses = query() if callable(query) else None
    return None if losses is None else tuple(float(loss) for loss in losses)


def evaluated(known: RankEnd, trainer: Trainer) -> RankEnd:
    """The same with the fault of what `evaluate()` gives: figures by name, or an iterator of such."""
    try:
        given = trainer.evaluate()
        for part in [given] if isinstance(given, Mapping) else given:
            for name, value in dict(part).items():
                if not isinstance(name, str) or not math.isfinite(float(value)):
                    return replace(known, evaluation_error=f"{name!r}: {value!r}; expected names and finite numbers")
    except Exception as error:
        return replace(known, evaluation_error=error_line(error))
    return known


def left(known: RankEnd, trainer: Trainer) -> RankEnd:
    """The same with how the trainer is left with an error while the other ranks do nothing."""
    error = RuntimeError("an error of the kit's own")
    began = time.monotonic()
    try:
        hides = bool(trainer.__exit__(RuntimeError, error, None))  # type: ignore[func-returns-value]
    except Exception as raised:
        return replace(known, leaving_error=error_line(raised), leaving_seconds=time.monotonic() - began)
    return replace(known, hides_errors=hides, leaving_seconds=time.monotonic() - began)


def closed(known: RankEnd, trainer: Trainer) -> RankEnd:
    """The same with closing it, twice."""
    try:
        trainer.close()
        trainer.close()
    except Exception as raised:
        return replace(known, close_error=error_line(raised))
    return known


def wait_for(path: Path) -> None:
    """Wait until another rank has created a file, or for PATIENCE_SECONDS."""
    limit = time.monotonic() + PATIENCE_SECONDS
    while not path.exists() and time.monotonic() < limit:
        time.sleep(0.02)


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
            getattr(value, "__signature__", None)  # completes a class of `llmperf.types`, which is made when it is used
            yield from (
                (f"{name}.{inner}", member)
                for inner, member in list(vars(value).items())
                if isroutine(member) or isinstance(member, (property, classmethod, staticmethod))
            )
        if isclass(value) or isroutine(value):
            yield name, value


def replaced_since(before: dict[str, Any]) -> tuple[str, ...]:
    """Names of functions that are others than before."""
    now = functions()
    return tuple(sorted(name for name, value in before.items() if now.get(name, value) is not value))
