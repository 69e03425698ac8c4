"""Reads the devices in a thread, and the load of the host from /proc: what others do beside a run."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import msgspec

from llmperf.measuring.processes import Process, counters, own_pids, processes_here
from llmperf.plugins.discovery import find
from llmperf.plugins.loading import Plugins
from llmperf.runfolder.reader import Moment, Recorder
from llmperf.runfolder.readings import HostLoad, HostReading
from llmperf.types.devices import DeviceSample
from llmperf.types.hosts import MAX_PROGRAMS, LoadBefore, Resource
from llmperf.types.plan import Plan
from llmperf.types.records import HostSample, MemorySample

Query = Callable[[tuple[int, ...]], Iterable[DeviceSample]]

MAX_FAILURES = 5
"""Consecutive readings that may fail before the sampler gives up."""

LOOK_SECONDS = 0.2
"""Seconds for which the host is observed before a run; the kernel counts in hundredths of a second."""
FIRST_READING_SECONDS = 2.0
"""Seconds for which a run waits for the first reading of its devices before it starts."""


class Sampler:
    """Appends samples of the devices to a file every `interval` seconds; an error ends it, never the run."""

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
        total_kib = counters(Path("/proc/meminfo")).get("MemTotal")
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
            memory_total_bytes=None if total_kib is None else total_kib * KIB,
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
                    moment = Moment.now()
                    try:
                        self._write(recorder, moment, checked(self._query(self._devices)))
                        failures = 0
                    except BaseException as error:  # SystemExit would end this thread silently
                        self._note(error)
                        failures += 1
                    if self._stop.wait(self._interval):
                        self._write(recorder, Moment.now(), ())  # a short window needs a reading after it
                        return
        except Exception as error:
            self._note(error)

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


HOOK = "llmperf_query_memory"


def device_sampler(
    path: Path, plugins: Plugins, devices: tuple[int, ...], interval: float = 1.0, node: int = 0, on_cpu: bool = False
) -> Sampler:
    """The sampler of devices here; without an answer of the vendor it reads the host alone."""
    used = devices if plugins.answers(HOOK) else ()
    return Sampler(path, lambda asked: plugins.ask(HOOK, devices=asked) if used else (), used, interval, node, on_cpu)


def vendor_sampler(path: Path, vendor: str, devices: tuple[int, ...], interval: float = 1.0) -> Sampler | None:
    """The sampler of a vendor's devices for a program that llmperf did not plan; None if the vendor reads none."""
    plugins = Plugins([find("vendor", vendor)])
    return device_sampler(path, plugins, devices, interval) if plugins.answers(HOOK) else None


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
            value, least = getattr(sample, field.name), -math.inf if field.name == "temperature_celsius" else 0
            if isinstance(value, (int, float)) and not (math.isfinite(value) and value >= least):
                expected = f"expected a finite number of at least {least}, found {value}"
                raise ValueError(f"llmperf_query_memory: {field.name}: {expected}")
    return msgspec.convert(msgspec.to_builtins(samples), tuple[DeviceSample, ...])


INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of the kernel: in this namespace, process ids are those that a driver lists."""
RESOURCES: tuple[Resource, ...] = ("cpu", "memory", "io")
KIB = 1024


class HostMeter:
    """Reads the host again and again; what programs used counts from one reading to the next."""

    def __init__(self) -> None:
        self._before: dict[tuple[int, int], int] | None = None

    def read(self, devices: Iterable[DeviceSample] = ()) -> HostSample | None:
        """The counters of this host and of this process's own processes; None where the system does not show them."""
        try:
            cores, per_second = os.sched_getaffinity(0), os.sysconf("SC_CLK_TCK")
            processes = processes_here()
            own = own_pids(processes, os.getpid())
            available_kib = counters(Path("/proc/meminfo")).get("MemAvailable")
            return HostSample(
                cores=len(cores),
                busy_seconds=busy_ticks(Path("/proc/stat").read_text(), cores) / per_second,
                own_seconds=own_ticks(processes, own) / per_second,
                other_processes=others(devices, own),
                programs={name: ticks / per_second for name, ticks in self._programs(processes, own, cores)},
                stalled_seconds=stalled_seconds(),
                memory_available_bytes=None if available_kib is None else available_kib * KIB,
                swapped_bytes=swapped_bytes(),
            )
        except (AttributeError, OSError, ValueError, IndexError):
            return None

    def _programs(
        self, processes: Mapping[int, Process], own: frozenset[int], cores: Set[int]
    ) -> list[tuple[str, int]]:
        """The programs of others that used most CPU time on these cores since the reading before; none at first."""
        before = self._before
        self._before = {(pid, process.start): process.ticks for pid, process in processes.items()}
        used: Counter[str] = Counter()
        if before is not None:
            for pid, process in processes.items():
                if pid not in own and process.core in cores:
                    used[process.name] += process.ticks - before.get((pid, process.start), 0)
        return [(name, ticks) for name, ticks in used.most_common(MAX_PROGRAMS) if ticks > 0]


def busy_ticks(stat: str, cores: Iterable[int]) -> int:
    """Ticks from /proc/stat in which these cores were neither idle nor waiting for disks."""
    wanted = {f"cpu{core}" for core in cores}
    lines = (line.split() for line in stat.splitlines() if line.startswith("cpu"))
    counters = [[int(field) for field in fields[1:9]] for fields in lines if fields[0] in wanted]
    return sum(sum(core) - core[3] - core[4] for core in counters)  # without idle and iowait


def own_ticks(processes: Mapping[int, Process], own: Iterable[int]) -> int:
    """CPU time of a process and its descendants. A process that ends meanwhile counts if its parent waited for it."""
    mine = (processes[pid] for pid in own if pid in processes)
    return sum(process.ticks + process.waited_ticks for process in mine)


def others(devices: Iterable[DeviceSample], own: frozenset[int]) -> int | None:
    """Number of processes on the devices that are not our own; None if no device lists processes, or by other ids."""
    running = on_devices(devices)
    if running is None or (running and not sees_driver_ids()):
        return None
    return len(running - own)


def on_devices(devices: Iterable[DeviceSample]) -> frozenset[int] | None:
    """The processes on the devices, by the ids of the driver; None if no device lists any."""
    listed = [device.process_ids for device in devices if device.process_ids is not None]
    return frozenset(pid for pids in listed for pid in pids) if listed else None


def sees_driver_ids() -> bool:
    """Check whether process ids here are those that a driver lists: not in a container with ids of its own."""
    return os.readlink("/proc/self/ns/pid") == INITIAL_PID_NAMESPACE


def names_of(pids: Iterable[int]) -> tuple[str, ...]:
    """The names of processes, each once, in order; without those that this process cannot see."""
    names = set()
    with suppress(OSError):
        for pid in pids if sees_driver_ids() else ():
            with suppress(OSError):
                names.add(Path(f"/proc/{pid}/comm").read_text(errors="replace").strip())
    return tuple(sorted(names)[:MAX_PROGRAMS])


def stalled_seconds() -> dict[Resource, float]:
    """Time since the system started in which some task waited for a resource; {} where the kernel does not count it."""
    seconds: dict[Resource, float] = {}
    for resource in RESOURCES:
        with suppress(OSError, ValueError, IndexError):
            line = Path(f"/proc/pressure/{resource}").read_text().splitlines()[0]
            seconds[resource] = int(line.rpartition("total=")[2]) / 1e6
    return seconds


def swapped_bytes() -> int | None:
    """Traffic to and from swap space since the system was started; None if unknown."""
    pages = counters(Path("/proc/vmstat"))
    if "pswpin" not in pages or "pswpout" not in pages:
        return None
    return (pages["pswpin"] + pages["pswpout"]) * os.sysconf("SC_PAGE_SIZE")


def load_average() -> float | None:
    """Tasks that run or wait, mean of the last minute; None if unknown."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None
