"""Facts of a host: system, processor, memory, limits, packages and the variables that plugins name."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import socket
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from llmperf.files.text import printable, without_secrets
from llmperf.planning.interfaces import NetworkInterface, network_interfaces
from llmperf.types.devices import Facts
from llmperf.types.units import Count, NonNegative, Positive

MAX_VALUE = 200
"""Longest value of a variable that is recorded."""
SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """The state of a host when it was asked."""

    hostname: str
    """Name that the host gives itself."""
    boot_id: str | None
    """Drawn by the kernel when it started: nodes with the same one share a machine. None if unknown."""
    os: str
    """Name, such as `Debian GNU/Linux 12 (bookworm)`."""
    kernel: str
    """Name and version, such as `Linux 6.1.0`."""
    cpu: str | None
    """Name of the processor."""
    cores: Positive
    """Cores that this process may use."""
    load: NonNegative | None
    """Load average of the last minute."""
    memory_bytes: Positive | None
    """Memory of the host."""
    memory_free_bytes: Count | None
    """Memory that can be used without swapping."""
    shared_memory_bytes: Count | None
    """Size of /dev/shm; None if there is none."""
    temporary_folder: str
    """Folder in which the node keeps its run folder."""
    temporary_free_bytes: Count | None
    """Free space of that folder's file system."""
    open_files: Count | None
    """Limit of open files for a process; None if unlimited."""
    locked_bytes: Count | None
    """Limit of memory that a process may lock, which RDMA needs; None if unlimited."""
    interfaces: tuple[NetworkInterface, ...]
    """Network interfaces."""
    known_as: tuple[str, ...]
    """Numeric addresses to which the launcher's name of the node resolves on the node itself."""
    packages: Mapping[str, str]
    """Versions of installed packages that affect the training speed, by import name."""
    environment: Mapping[str, str]
    """Variables that plugins name, without secrets."""


def host_facts(facts: Facts, known_as: tuple[str, ...] = ()) -> HostFacts:
    """The facts of this host. `facts` are those of its plugins."""
    folder = tempfile.gettempdir()
    return HostFacts(
        hostname=socket.gethostname(),
        boot_id=_boot_id(),
        os=os_name(),
        kernel=f"{platform.system()} {platform.release()}",
        cpu=cpu_name(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        load=_load(),
        memory_bytes=memory_bytes(),
        memory_free_bytes=_memory_free_bytes(),
        shared_memory_bytes=_size(SHARED_MEMORY, free=False),
        temporary_folder=folder,
        temporary_free_bytes=_size(Path(folder), free=True),
        open_files=_limit(resource.RLIMIT_NOFILE),
        locked_bytes=_limit(resource.RLIMIT_MEMLOCK),
        interfaces=network_interfaces(),
        known_as=known_as,
        packages=package_versions(facts.packages),
        environment=recorded_environment(os.environ, facts),
    )


def recorded_environment(environment: Mapping[str, str], facts: Facts) -> dict[str, str]:
    """The variables that the facts name, with values of at most 200 characters.

    Variables whose names suggest a secret (`redaction.SECRET_NAME`) are left out.
    """
    names, prefixes = facts.environment_names, facts.environment_prefixes
    recorded = (name for name in sorted(without_secrets(environment)) if name in names or name.startswith(prefixes))
    return {name: printable(environment[name], "?")[:MAX_VALUE] for name in recorded}


def os_name() -> str:
    """The distribution, such as `Debian GNU/Linux 12 (bookworm)`; otherwise the system."""
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def cpu_name() -> str | None:
    """The model of the first processor; None if the system does not name it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name") and ":" in line)
    return next(models, None) or platform.processor() or None


def memory_bytes() -> int | None:
    """Memory of the host."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def _memory_free_bytes() -> int | None:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() or None
    except OSError:
        return None


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def _size(folder: Path, free: bool) -> int | None:
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return usage.free if free else usage.total


def _limit(kind: int) -> int | None:
    soft, _ = resource.getrlimit(kind)
    return None if soft == resource.RLIM_INFINITY else soft


def package_versions(names: tuple[str, ...]) -> dict[str, str]:
    """Versions of the installed packages among these import names; nothing is imported."""
    from llmperf.plugins.installed import package_version

    versions = {name: package_version(name) for name in sorted(names)}
    return {name: known for name, known in versions.items() if known is not None}
