"""Reads memory, utilisation and power of the devices, and the load of the host, in a thread."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import msgspec

from llmperf.measuring.host_meter import HostMeter, load_average, memory_total_bytes, names_of, on_devices
from llmperf.plugins.loading import Plugins
from llmperf.runfolder.reader import Moment, Recorder
from llmperf.runfolder.readings import HostLoad, HostReading
from llmperf.types.devices import DeviceSample
from llmperf.types.hosts import LoadBefore
from llmperf.types.plan import Plan
from llmperf.types.records import MemorySample

Query = Callable[[tuple[int, ...]], tuple[DeviceSample, ...]]

MAX_FAILURES = 5
"""Consecutive readings that may fail before the sampler gives up."""

LOOK_SECONDS = 0.2
"""Seconds for which the host is observed before a run; the kernel counts in hundredths of a second."""
FIRST_READING_SECONDS = 2.0
"""Seconds for which a run waits for the first reading of its devices before it starts."""


class Sampler:
    """Reads the devices every `interval` seconds and appends the samples to a file.

    An error may end the sampling, but never the run; `problem` then holds the reason.
    """

    def __init__(
        self,
        path: Path,
        query: Query,
        devices: tuple[int, ...],
        interval: float = 1.0,
        node_rank: int = 0,
        on_cpu: bool = False,
    ) -> None:
        """`node_rank`: of this host. `on_cpu`: True if the devices are the cores of the host."""
        self._path = path
        self._query = query
        self._devices = devices
        self._interval = interval
        self._node_rank = node_rank
        self._on_cpu = on_cpu
        self._meter = HostMeter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_all, name="llmperf-sampler", daemon=True)
        self.problem: str | None = None

    def look(self, seconds: float = LOOK_SECONDS) -> LoadBefore:
        """Read the activity of others on the host and its devices before a run begins."""
        load, began = HostLoad(), time.monotonic()
        self._read_host(load)
        # one reading of the devices
        readings: list[tuple[DeviceSample, ...]] = []

        def read() -> None:
            with suppress(Exception):
                readings.append(checked(self._query(self._devices)))

        if self._devices:
            reading = threading.Thread(target=read, name="llmperf-first-reading", daemon=True)
            reading.start()
            reading.join(FIRST_READING_SECONDS)
        devices = readings[0] if readings else ()
        time.sleep(max(0.0, seconds - (time.monotonic() - began)))
        self._read_host(load)
        host = None if load.last is None else load.last.host
        running, swapped = on_devices(devices), load.swapped_bytes
        used = [device.utilisation_percent for device in devices if device.utilisation_percent is not None]
        reasons = [device.throttle_reasons for device in devices if device.throttle_reasons is not None]
        return LoadBefore(
            other_cpu_share=load.share,
            programs=load.programs,
            other_processes=None if running is None else len(running),
            device_programs=names_of(running or ()),
            utilisation_percent=None if self._on_cpu else max(used, default=None),
            throttle_reasons=tuple(sorted({reason for each in reasons for reason in each})) if reasons else None,
            load_average=load_average(),
            pressure=load.pressure,
            memory_total_bytes=memory_total_bytes(),
            memory_available_bytes=None if host is None else host.memory_available_bytes,
            swapped_bytes_per_second=None if swapped is None else swapped / load.seconds,
        )

    def _read_host(self, load: HostLoad) -> None:
        at, host = time.monotonic(), self._meter.read()
        if host is not None:
            load.add(HostReading(at, host))

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def stop(self, wait_seconds: float = 2.0) -> None:
        """End the sampling; a reading that takes longer than `wait_seconds` is abandoned and recorded as a problem."""
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
                        self._write(recorder, Moment.now(), ())  # a short window needs a reading after it
                        return
        except Exception as error:
            self._note(error)

    def _sample(self, recorder: Recorder) -> bool:
        moment = Moment.now()
        try:
            self._write(recorder, moment, checked(self._query(self._devices)))
        except BaseException as error:  # SystemExit would end this thread silently
            self._note(error)
            return False
        return True

    def _write(self, recorder: Recorder, moment: Moment, devices: tuple[DeviceSample, ...]) -> None:
        seconds = time.monotonic() - moment.monotonic
        host = self._meter.read(devices)
        recorder.write(
            MemorySample(
                at=moment.at,
                monotonic=moment.monotonic,
                query_seconds=seconds,
                devices=devices,
                host=host,
                node_rank=self._node_rank,
            )
        )

    def _note(self, error: BaseException) -> None:
        if self.problem is None:
            self.problem = f"reading the devices failed: {type(error).__name__}: {error}"[:500]


def device_sampler(path: Path, plan: Plan, plugins: Plugins, interval: float, node_rank: int = 0) -> Sampler:
    """The sampler of the devices that a plan uses here; without an answer of the vendor it reads the host alone."""
    query = device_query(plugins)
    devices = () if query is None else used_devices(plan)
    return Sampler(path, query or (lambda _: ()), devices, interval, node_rank, plan.probe.on_cpu)


def device_query(plugins: Plugins) -> Query | None:
    """The function that reads the devices; None if no vendor plugin does."""
    hook = "llmperf_query_memory"
    if not plugins.answers(hook):
        return None

    def query(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
        return tuple(plugins.ask(hook, devices=devices))

    return query


def used_devices(plan: Plan) -> tuple[int, ...]:
    """The indices of the devices that a plan uses on each node."""
    used = plan.probe.devices if plan.device_share < 1 else plan.probe.devices[: plan.layout.devices_per_node]
    return tuple(device.index for device in used)


def checked(given: Iterable[DeviceSample]) -> tuple[DeviceSample, ...]:
    """The readings of a vendor plugin; TypeError or ValueError for values that a record cannot hold."""
    samples = tuple(given)
    for sample in samples:
        if not isinstance(sample, DeviceSample):
            raise TypeError(f"llmperf_query_memory: expected a DeviceSample, found {type(sample).__name__}")
        for field in fields(sample):
            _check_number(field.name, getattr(sample, field.name))
    return msgspec.convert(msgspec.to_builtins(samples), tuple[DeviceSample, ...])


def _check_number(name: str, value: object) -> None:
    least = -math.inf if name == "temperature_celsius" else 0
    if isinstance(value, (int, float)) and not (math.isfinite(value) and value >= least):
        raise ValueError(f"llmperf_query_memory: {name}: expected a finite number of at least {least}, found {value}")
