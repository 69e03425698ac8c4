"""The state of a node: system, processor, memory, limits, interfaces, packages and the variables that plugins name."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from llmperf.launching import package_versions, this_host
from llmperf.types import Facts
from llmperf.types.units import Count, NonNegative, Positive

from llmperf_remote.interfaces import NetworkInterface, network_interfaces


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """The state of a host when it was asked."""

    hostname: str
    boot_id: str | None
    """Drawn by the kernel when it started: nodes with the same one share a machine. None if unknown."""
    os: str
    """Name, such as `Debian GNU/Linux 12 (bookworm)`."""
    kernel: str
    cpu: str | None
    cores: Positive
    """Cores that this process may use."""
    load: NonNegative | None
    memory_bytes: Positive | None
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
    known_as: tuple[str, ...]
    """Numeric addresses to which the launcher's name of the node resolves on the node itself."""
    packages: Mapping[str, str]
    """Versions of installed packages that affect the training speed, by import name."""
    environment: Mapping[str, str]
    """Variables that plugins name, without secrets."""


def host_facts(facts: Facts, known_as: tuple[str, ...] = ()) -> HostFacts:
    """The facts of this host, with the packages and variables that `facts` name."""
    folder, host = tempfile.gettempdir(), this_host({}, facts)
    boot_id = load = memory_free = shared = free = None
    with suppress(OSError):
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip() or None
    with suppress(OSError):
        load = os.getloadavg()[0]
    with suppress(OSError, ValueError, IndexError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        memory_free = 1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1])
    with suppress(OSError):
        free = shutil.disk_usage(folder).free
    with suppress(OSError):
        shared = shutil.disk_usage("/dev/shm").total
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_MEMLOCK)]
    open_files, locked = (None if soft == resource.RLIM_INFINITY else soft for soft in limits)
    return HostFacts(
        hostname=socket.gethostname(),
        boot_id=boot_id,
        os=host.os,
        kernel=host.kernel,
        cpu=host.cpu,
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        load=load,
        memory_bytes=host.memory_bytes,
        memory_free_bytes=memory_free,
        shared_memory_bytes=shared,
        temporary_folder=folder,
        temporary_free_bytes=free,
        open_files=open_files,
        locked_bytes=locked,
        interfaces=network_interfaces(),
        known_as=known_as,
        packages=package_versions(facts.packages),
        environment=host.environment,
    )
