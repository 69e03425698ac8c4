"""Hook implementations for the host CPU."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Device, DeviceSample, Dtype, PeakFlops, Plan, Probe, Rule

KEEP_MEMORY = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
"""Variables of glibc's malloc, with which it keeps freed memory; other allocators do not read them."""


@hookimpl
def llmperf_probe() -> Probe:
    """One device that any number of ranks can share: all cores this process may use."""
    from llmperf_cpu.host import probe

    return probe()


@hookimpl
def llmperf_peak_flops(device_model: str, dtype: Dtype) -> PeakFlops | str | None:
    """This host's fastest matrix product, measured once and kept; None for another CPU, a reason on a busy host."""
    from llmperf_cpu.peak import measured_peak

    return measured_peak(device_model, dtype)


@hookimpl
def llmperf_time_peak(device_model: str, dtype: Dtype) -> PeakFlops | None:
    """The same, timed now; a larger figure takes the place of the kept one."""
    from llmperf_cpu.peak import peak_now

    return peak_now(device_model, dtype)


@hookimpl
def llmperf_query_memory(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
    """Memory, utilisation since the last call, power and temperature of the whole host."""
    from llmperf_cpu.sampler import sample

    return tuple(sample(index) for index in devices)


@hookimpl
def llmperf_worker_env(plan: Plan) -> Mapping[str, str]:
    """Each rank's share of the cores, or the user's OMP_NUM_THREADS, and an allocator that keeps freed memory.

    More threads than cores slow one another down. By default, glibc returns large tensors to the system after each
    step, and the kernel zeroes the pages again for the next one: 6 to 9 % of the default case's time.
    """
    from llmperf_cpu.host import threads_of_a_rank

    chosen = os.environ.get("OMP_NUM_THREADS", "")
    return {"OMP_NUM_THREADS": chosen if chosen.isdecimal() else str(threads_of_a_rank(plan)), **KEEP_MEMORY}


@hookimpl
def llmperf_rules(kind: str | None) -> Iterable[Rule]:
    """Rules for plans and results of these devices."""
    if kind not in (None, "plan", "result", "run"):
        return []
    from llmperf.validation import rules_in

    from llmperf_cpu import rules

    return rules_in(rules)


@hookimpl
def llmperf_setup_device(plan: Plan, local_rank: int) -> Device:
    """The host itself; nothing has to be bound."""
    from llmperf_cpu.device import CpuDevice

    return CpuDevice()
