"""A simulated device that computes on the host CPU, so that every command works before there is a real device.

Results are marked `simulated`, and it has no peak. Once the tool shows your devices, delete this file, its test, and
every line of plugin.py that ends with `# stand-in`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING

from llmperf.types import DeviceInfo, Offers, Probe

if TYPE_CHECKING:
    from llmperf.types import Plan

MODEL = "Acme stand-in"


def played(probe: Probe) -> Probe:
    """The probe itself; if it has no device, one with a simulated device that any number of ranks can share."""
    if probe.devices:
        return probe
    return Probe(
        vendor="acme",
        devices=(DeviceInfo(index=0, model=MODEL, memory_bytes=None, kind="cpu", divisible=True),),
        offers=Offers(precisions=("fp32", "bf16"), runtimes=("torch",), collective_backend=StandIn.collective_backend),
        simulated=True,
        problems=(*probe.problems, f"{MODEL} computes on the host CPU, and results say that it is simulated"),
    )


def plays(plan: Plan) -> bool:
    """Whether the plan is for the simulated device."""
    return plan.probe.simulated and plan.probe.devices[0].model == MODEL


def worker_env(plan: Plan) -> Mapping[str, str]:
    """Each rank's share of the host's cores."""
    return {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // plan.layout.devices_per_node))}


class Now:
    """A reading of the host's clock: on a CPU, work is done when a call returns."""

    def __init__(self) -> None:
        self._at = time.perf_counter()

    def ready(self) -> bool:
        """Always true."""
        return True

    def seconds_since(self, earlier: Now) -> float:
        """Seconds between two events."""
        return self._at - earlier._at


class StandIn:
    """The host CPU as a device."""

    places: Mapping[str, str] = MappingProxyType({"torch": "cpu"})
    collective_backend = "gloo"

    def event(self) -> Now:
        """The present time."""
        return Now()

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def peak_memory_bytes(self) -> int | None:
        """Unknown: there is no device memory."""
        return None

    def reset_peak_memory(self) -> None:
        """Nothing to reset."""

    def close(self) -> None:
        """Nothing to release."""

    def __enter__(self) -> StandIn:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
