"""Reading the devices' memory, utilisation and power while a run goes, from a thread of the controller."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path

import msgspec

from llmperf.measuring.moment import Moment
from llmperf.measuring.recorder import Recorder
from llmperf.types.devices import DeviceSample
from llmperf.types.records import MemorySample

Query = Callable[[tuple[int, ...]], tuple[DeviceSample, ...]]

MAX_FAILURES = 5
"""Readings that may fail in a row before the sampler gives up."""


class Sampler:
    """Asks for the devices' state every `interval` seconds and appends the answers to a file.

    Whatever goes wrong ends the sampling at most, never the run; `problem` then says what it was.
    """

    def __init__(self, path: Path, query: Query, devices: tuple[int, ...], interval: float = 1.0) -> None:
        self._path = path
        self._query = query
        self._devices = devices
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_all, name="llmperf-sampler", daemon=True)
        self.problem: str | None = None

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def stop(self, wait_seconds: float = 2.0) -> None:
        """End the sampling; a reading that takes longer than `wait_seconds` is abandoned and noted."""
        self._stop.set()
        if self._thread.ident is None:
            return
        self._thread.join(wait_seconds)
        if self._thread.is_alive():
            self.problem = self.problem or "the last reading of the devices did not return"

    def _sample_all(self) -> None:
        failures = 0
        try:
            with Recorder(self._path) as recorder:
                while failures < MAX_FAILURES:
                    failures = 0 if self._sample(recorder) else failures + 1
                    if self._stop.wait(self._interval):
                        return
        except Exception as error:
            self._note(error)

    def _sample(self, recorder: Recorder) -> bool:
        moment = Moment.now()
        try:
            devices = checked(self._query(self._devices))
            seconds = time.monotonic() - moment.monotonic
            recorder.write(
                MemorySample(at=moment.at, monotonic=moment.monotonic, query_seconds=seconds, devices=devices)
            )
        except BaseException as error:  # SystemExit would end this thread in silence
            self._note(error)
            return False
        return True

    def _note(self, error: BaseException) -> None:
        if self.problem is None:
            self.problem = f"reading the devices failed: {type(error).__name__}: {error}"[:500]


def checked(given: Iterable[DeviceSample]) -> tuple[DeviceSample, ...]:
    """What a vendor plugin gave as its readings; TypeError or ValueError for what could not be read back."""
    samples = tuple(given)
    for one in samples:
        if not isinstance(one, DeviceSample):
            raise TypeError(f"llmperf_query_memory: expected a DeviceSample, found {type(one).__name__}")
        for field in fields(one):
            _check_number(field.name, getattr(one, field.name))
    return msgspec.convert(msgspec.to_builtins(samples), tuple[DeviceSample, ...])


def _check_number(name: str, value: object) -> None:
    least = -math.inf if name == "temperature_celsius" else 0
    if isinstance(value, (int, float)) and not (math.isfinite(value) and value >= least):
        raise ValueError(f"llmperf_query_memory: {name}: expected a finite number of at least {least}, found {value}")
