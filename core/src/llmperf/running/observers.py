"""Calls the observers of a run, each in its own thread, and drops those that fail or block."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from llmperf.errors import PluginError
from llmperf.plugins.discovery import Found
from llmperf.plugins.faults import described, who
from llmperf.plugins.loading import Plugins
from llmperf.types.observing import Observer, Progress, StepProgress
from llmperf.types.plan import Plan
from llmperf.types.result import Result

HOOK = "llmperf_observers"
METHODS = ("started", "progress", "steps", "ended")
STEPS_INTERVAL_SECONDS = 1.0
"""Steps are handed over at most this often."""
LIMIT_SECONDS = 5.0
"""Most seconds for one call of an observer."""
LOG_LIMIT_SECONDS = 30.0
"""Most seconds for one call of an observer that the user asked for with `--log`."""
MAX_WAITING_STEPS = 100_000
"""Most steps that wait for a busy observer; it is dropped before there are more in any real run."""

Warn = Callable[[str], None]
Call = tuple[str, tuple[object, ...]]


class _ObserverThread:
    """One observer with its pending calls."""

    def __init__(self, observer: Observer, owner: Found, limit_seconds: float) -> None:
        self._observer = observer
        self._limit_seconds = limit_seconds
        self.label = f"observer {observer.name!r} of {who(owner)}"
        self._changed = threading.Condition()
        self._progress: Progress | None = None
        self._steps: deque[StepProgress] = deque(maxlen=MAX_WAITING_STEPS)
        self._ended: Call | None = None
        self._busy_since: float | None = None
        self._busy_with = ""
        self.problem: str | None = None
        """Why the observer was dropped."""
        self._thread: threading.Thread | None = None

    def start(self, plan: Plan, folder: Path) -> None:
        name = f"llmperf-observer-{self._observer.name}"
        self._thread = threading.Thread(target=self._run, args=(plan, folder), name=name, daemon=True)
        self._thread.start()

    def put(self, progress: Progress, steps: Sequence[StepProgress]) -> None:
        with self._changed:
            self._progress = progress
            self._steps.extend(steps)
            self._changed.notify()

    def end(self, result: Result | None, folder: Path) -> None:
        with self._changed:
            self._ended = ("ended", (result, folder))
            self._changed.notify()

    def check(self) -> None:
        """Note an observer that takes too long; its thread is abandoned."""
        busy_since = self._busy_since
        if self.problem is None and busy_since is not None and time.monotonic() - busy_since > self._limit_seconds:
            self.problem = f"{self._busy_with} did not return within {self._limit_seconds:g} s"

    def finish(self) -> None:
        """Wait until the observer has taken its last call or has been dropped."""
        while self._thread is not None and self._thread.is_alive() and self.problem is None:
            self._thread.join(0.05)
            self.check()

    def _run(self, plan: Plan, folder: Path) -> None:
        for name, arguments in self._calls(plan, folder):
            self._busy_with, self._busy_since = name, time.monotonic()
            try:
                getattr(self._observer, name)(*arguments)
            except BaseException as error:  # also SystemExit, which would end this thread silently
                self.problem = self.problem or f"{HOOK}: {name} raised {described(error)}"
            self._busy_since = None
            if self.problem is not None:
                return

    def _calls(self, plan: Plan, folder: Path) -> Iterator[Call]:
        """The start, then steps once a second and the latest progress, then the end."""
        yield "started", (plan, folder)
        next_steps = 0.0
        while True:
            with self._changed:
                seconds = next_steps - time.monotonic()
                if self._steps and (self._ended or seconds <= 0):
                    call: Call = "steps", (tuple(self._steps),)
                    self._steps.clear()
                    next_steps = time.monotonic() + STEPS_INTERVAL_SECONDS
                elif self._progress is not None:
                    call, self._progress = ("progress", (self._progress,)), None
                elif self._ended is not None:
                    break
                else:
                    self._changed.wait(seconds if self._steps else None)
                    continue
            yield call
        yield self._ended


class Observers:
    """All observers of one run."""

    def __init__(self, plugins: Plugins, warn: Warn, logs: Sequence[tuple[Found, Observer]] = ()) -> None:
        """The observers of all plugins, and those of `--log`; PluginError for what is no Observer."""
        self._warn = warn
        self._threads = [
            _ObserverThread(checked_observer(observer, plugins.who(owner), HOOK), plugins.found(owner), LIMIT_SECONDS)
            for owner, observer in plugins.collect_items(HOOK)
        ]
        self._threads += [
            _ObserverThread(checked_observer(observer, who(found), "llmperf_loggers"), found, LOG_LIMIT_SECONDS)
            for found, observer in logs
        ]

    def started(self, plan: Plan, folder: Path) -> None:
        """Start every observer."""
        for thread in self._threads:
            thread.start(plan, folder)

    def observe(self, progress: Progress, steps: Sequence[StepProgress]) -> None:
        """Pass on the present state and the steps that have just finished; drop observers that failed or block."""
        for thread in self._threads:
            thread.put(progress, steps)
            thread.check()
        self._drop()

    def ended(self, result: Result | None, folder: Path) -> None:
        """Pass on the result and wait for all observers, for as long as one call may take."""
        for thread in self._threads:
            thread.end(result, folder)
        for thread in self._threads:
            thread.finish()
        self._drop()
        self._threads = []

    def _drop(self) -> None:
        for thread in [thread for thread in self._threads if thread.problem is not None]:
            self._threads.remove(thread)
            self._warn(f"{thread.label} is dropped, the run goes on: {thread.problem}")


def checked_observer(observer: Observer, owner: str, hook: str) -> Observer:
    """The observer that a hook gave; PluginError that names its owner if it lacks what an observer has."""
    missing = [name for name in METHODS if not callable(getattr(observer, name, None))]
    if missing or not isinstance(getattr(observer, "name", None), str):
        lacks = ", ".join(missing) or "name"
        raise PluginError(f"{owner}: {hook}: expected an Observer, found {type(observer).__name__} without {lacks}")
    return observer
