"""Reading the devices' memory, utilisation and power, and the host's load, from a thread of the controller."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import msgspec

from llmperf.accounting.evenness import OTHER_CPU_SHARE
from llmperf.measuring.host_load import host_sample, other_share
from llmperf.runfolder.recorder import Moment, Recorder
from llmperf.types.devices import DeviceSample
from llmperf.types.records import MemorySample

Query = Callable[[tuple[int, ...]], tuple[DeviceSample, ...]]

MAX_FAILURES = 5
"""Readings that may fail in a row before the sampler gives up."""

LOOK_SECONDS = 0.2
"""Of looking at the host before a run: the kernel counts in hundredths of a second."""
FIRST_READING_SECONDS = 2.0
"""How long a run waits for its devices to be read before it starts."""


class Before(NamedTuple):
    """What others had of the host and its devices before a run began; None where unknown."""

    other_cpu_share: float | None
    other_processes: int | None

    @property
    def lines(self) -> tuple[str, ...]:
        """A line for each thing that disturbs the run."""
        share, processes, told = self.other_cpu_share, self.other_processes, []
        if share is not None and share > OTHER_CPU_SHARE:
            told.append(f"other processes have {100 * share:.0f} % of the host's cores; the run will be disturbed")
        if processes:
            told.append(f"other processes compute on the devices: {processes}; the run will be disturbed")
        return tuple(told)


class Sampler:
    """Asks for the devices' state every `interval` seconds and appends the answers to a file.

    Whatever goes wrong ends the sampling at most, never the run; `problem` then says what it was.
    """

    def __init__(
        self, path: Path, query: Query, devices: tuple[int, ...], interval: float = 1.0, host: bool = True
    ) -> None:
        """`host`: whether the run is on this host alone, so that its processes are this one's descendants."""
        self._path = path
        self._query = query
        self._devices = devices
        self._interval = interval
        self._host = host
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_all, name="llmperf-sampler", daemon=True)
        self.problem: str | None = None

    def look(self, seconds: float = LOOK_SECONDS) -> Before:
        """What others have of the host's cores and of the devices before a run begins."""
        if not self._host:
            return Before(None, None)
        begin = time.monotonic(), host_sample()
        devices = self._read_within(FIRST_READING_SECONDS)
        time.sleep(max(0.0, seconds - (time.monotonic() - begin[0])))
        samples = [begin, (time.monotonic(), host_sample())]
        listed = [one.process_ids for one in devices if one.process_ids is not None]
        there = {pid for pids in listed for pid in pids} if listed else None
        share = other_share([(at, one) for at, one in samples if one is not None])
        return Before(share, None if there is None else len(there))

    def _read_within(self, seconds: float) -> tuple[DeviceSample, ...]:
        """One reading of the devices; empty where it fails or takes longer: the readings of the run then say so."""
        found: list[tuple[DeviceSample, ...]] = []

        def read() -> None:
            with suppress(Exception):
                found.append(checked(self._query(self._devices)))

        if self._devices:
            reading = threading.Thread(target=read, name="llmperf-first-reading", daemon=True)
            reading.start()
            reading.join(seconds)
        return found[0] if found else ()

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
                MemorySample(
                    at=moment.at,
                    monotonic=moment.monotonic,
                    query_seconds=seconds,
                    devices=devices,
                    host=host_sample(devices) if self._host else None,
                )
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
