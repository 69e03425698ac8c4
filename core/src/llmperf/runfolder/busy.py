"""What makes a machine too busy to measure on: the bounds of an idle host, and the words for one that is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llmperf.files.text import printable
from llmperf.types.host_load import FAULTS, BusyProgram, LoadBefore
from llmperf.types.result import MEMORY_PRESSURE, OTHER_CPU_SHARE

BUSY_UTILISATION_PERCENT = 20.0
"""Of a device whose driver does not list its processes. A desktop takes a few percent."""
LEAST_MEMORY_SHARE = 0.05
"""Share of the host's memory that must be available; below it, a new process is likely to make the kernel swap."""
SWAPPED_BYTES_PER_SECOND = 10 * 2**20
"""A host that swaps for want of memory moves hundreds of MiB a second; single pages come back at any time."""
GIB = 2**30


def busy_text(load: LoadBefore) -> str | None:
    """`the machine is busy: other processes use 45 % of the cores (cc1plus 30 %)`; None if it is idle."""
    parts = list(busy_parts(load))
    return f"the machine is busy: {', '.join(parts)}" if parts else None


def busy_parts(load: LoadBefore) -> Iterator[str]:
    """Words for each thing that would disturb a run; none on an idle machine. Unknown figures count as idle."""
    share, pressure = load.other_cpu_share, load.pressure.get("memory", 0.0)
    if share is not None and share > OTHER_CPU_SHARE:
        yield f"other processes use {100 * share:.0f} % of the cores{programs_text(load.programs)}"
    if load.other_processes:
        names = f" ({printable(', '.join(load.device_programs))})" if load.device_programs else ""
        yield f"other processes compute on the devices: {load.other_processes}{names}"
    elif load.other_processes is None and (load.utilisation_percent or 0.0) > BUSY_UTILISATION_PERCENT:
        yield f"a device is in use ({load.utilisation_percent:.0f} %)"
    if reasons := [reason for reason in load.throttle_reasons or () if reason in FAULTS]:
        yield f"a device is slowed by {', '.join(reasons)}"
    total, available = load.memory_total_bytes, load.memory_available_bytes
    if total and available is not None and available < LEAST_MEMORY_SHARE * total:
        yield f"only {available / GIB:.1f} of {total / GIB:.1f} GiB of memory are free"
    if pressure > MEMORY_PRESSURE:
        yield f"processes wait for memory {100 * pressure:.0f} % of the time"
    if (load.swapped_bytes_per_second or 0.0) > SWAPPED_BYTES_PER_SECOND:
        yield f"the host swaps {load.swapped_bytes_per_second / 2**20:.0f} MiB a second"  # type: ignore[operator]


def programs_text(programs: Iterable[BusyProgram]) -> str:
    """` (cc1plus 30 %, python3 12 %)`; empty if the programs are not known."""
    shares = ", ".join(f"{printable(program.name)} {100 * program.cpu_share:.0f} %" for program in programs)
    return f" ({shares})" if shares else ""
