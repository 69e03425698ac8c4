"""Hook answers that plugins on torch share: a plugin module imports the functions. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import llmperf

if TYPE_CHECKING:
    from pathlib import Path

    from llmperf.types import Device, Plan, StepProfile


@llmperf.hookimpl
def llmperf_worker_env(plan: Plan) -> Mapping[str, str]:
    """The network interface of the ranks, if there are several nodes."""
    return llmperf.interface_variables(plan, "GLOO_SOCKET_IFNAME")


@llmperf.hookimpl
def llmperf_profile_steps(device: Device, step: Callable[[], object], steps: int, trace: Path | None) -> StepProfile:
    """The steps under torch.profiler."""
    from llmperf_torchkit.profiling import profiled_steps

    return profiled_steps(device, step, steps, trace)
