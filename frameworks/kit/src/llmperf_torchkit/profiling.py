"""Steps under torch.profiler: time by operation and kind, communication, overlap and idle time, a Chrome trace."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from llmperf.types import Device, ProfiledOperation, StepProfile
from torch.profiler import profile, record_function, supported_activities

from llmperf_torchkit.processes import own_rank, torch_device
from llmperf_torchkit.tracing.operations import FREE, known_kind

COMMUNICATION = ("nccl", "rccl", "gloo:", "hccl", "bkcl", "xccl")
"""Parts of the names of what communicates, on the device or the host."""
COLLECTIVES = ("c10d", "_c10d_functional", "c10d_functional", "_dtensor")
"""Libraries whose operations start collectives or wait for them."""
USER_SCOPE = 7
"""at::RecordScope::USER_SCOPE, that of `record_function`."""
STEP_MARK = "ProfilerStep#"
"""As torch.profiler itself marks the steps of a schedule."""
MAX_TRACE_BYTES = 64 * 2**20
"""Larger compressed traces are not kept."""
MAX_NAME = 200

Interval = tuple[float, float]


def profiled_steps(device: Device, step: Callable[[], object], steps: int, trace: Path | None) -> StepProfile:
    """Call `step` so often under torch's profiler."""
    on_cpu = torch_device(device).type == "cpu"
    with profile(activities=supported_activities()) as profiler:
        start = time.perf_counter()
        for number in range(steps):
            with record_function(f"{STEP_MARK}{number}"):
                step()
        device.synchronize()
        seconds = time.perf_counter() - start
    events: list[Any] = list(profiler.events() or ())
    computing, communicating = _intervals(events, on_cpu)
    communication, both = _length(communicating), _length([*communicating, *computing])
    notes = []
    if trace is not None:
        profiler.export_chrome_trace(str(trace))
        if trace.stat().st_size > MAX_TRACE_BYTES:
            trace.unlink()
            notes.append(f"the Chrome trace was larger than {MAX_TRACE_BYTES // 2**20} MiB and is not kept")
    if on_cpu:
        notes.append("times are those of calls on the host; communication is that of collectives, in any thread")
    return StepProfile(
        rank=own_rank(),
        steps=steps,
        profiler=f"torch.profiler {torch.__version__}",
        clock="host" if on_cpu else "device",
        step_seconds=seconds / steps,
        operations=_operations(events, on_cpu, steps),
        communication_seconds=communication / steps,
        overlapped_seconds=max(0.0, communication + _length(computing) - both) / steps,
        idle_seconds=max(0.0, seconds - both) / steps,
        trace=trace.name if trace is not None and trace.exists() else None,
        notes=tuple(notes),
    )


def _communicates(name: str) -> bool:
    lower = name.lower()
    return name.partition("::")[0] in COLLECTIVES or any(part in lower for part in COMMUNICATION)


def _is_annotation(event: Any) -> bool:
    """Check whether an event is a region that a program named by `record_function`, such as `FSDP::all_gather`."""
    return bool(getattr(event, "is_user_annotation", None)) or getattr(event, "scope", None) == USER_SCOPE


def _is_operation(event: Any) -> bool:
    """Check whether an event of the host is an operation, not a mark of Python, autograd or a hook."""
    name = str(event.name)
    marks = ("autograd", "profiler", "torch")
    return (
        "::" in name and name.partition("::")[0] not in marks and not _communicates(name) and not _is_annotation(event)
    )


def _intervals(events: Iterable[Any], on_cpu: bool) -> tuple[list[Interval], list[Interval]]:
    """When operations and when communication went on, in seconds."""
    computing, communicating = [], []
    for event in events:
        on_host = event.device_type == torch.autograd.DeviceType.CPU
        span = (event.time_range.start / 1e6, event.time_range.end / 1e6)
        if on_host != on_cpu:
            continue
        if _communicates(str(event.name)):  # a backend's own annotations, such as `gloo:all_reduce`, too
            communicating.append(span)
        elif _is_operation(event) if on_cpu else not _is_annotation(event):
            computing.append(span)
    return computing, communicating


def _length(intervals: Iterable[Interval]) -> float:
    """Seconds that at least one interval covers."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def _operations(events: Iterable[Any], on_cpu: bool, steps: int) -> tuple[ProfiledOperation, ...]:
    """Time of each operation: of its own kernels, or of a CPU without what it calls."""
    seconds: dict[str, float] = defaultdict(float)
    calls: dict[str, int] = defaultdict(int)
    for event in events:
        if event.device_type != torch.autograd.DeviceType.CPU or not _is_operation(event):
            continue
        spent = event.self_cpu_time_total if on_cpu else sum(kernel.duration for kernel in event.kernels)
        name = str(event.name).replace("::", ".")[:MAX_NAME]
        if spent > 0 and (on_cpu or event.kernels):
            seconds[name] += spent / 1e6
            calls[name] += 1
    made = [
        ProfiledOperation(
            name=name,
            kind=known_kind(name) or ("copy" if name in FREE else "elementwise"),
            seconds=total / steps,
            calls=calls[name] / steps,
        )
        for name, total in seconds.items()
    ]
    return tuple(sorted(made, key=lambda operation: -operation.seconds))
