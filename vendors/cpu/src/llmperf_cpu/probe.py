"""The host CPU as one divisible device."""

from __future__ import annotations

import platform

from llmperf.types import DeviceInfo, Offers, Probe

from llmperf_cpu import host

OFFERS = Offers(precisions=("fp32", "bf16"), runtimes=("torch", "paddle"), collective_backend="gloo")
"""fp16 has no training kernels on CPUs, and tf32 is a GPU's format."""


def probe() -> Probe:
    """What this host is; never fails."""
    details = {"cores": str(host.usable_cores()), "architecture": platform.machine()}
    if (sockets := host.sockets()) is not None:
        details["sockets"] = str(sockets)
    device = DeviceInfo(
        index=0,
        model=host.cpu_model(),
        memory_bytes=host.memory_bytes(),
        kind="cpu",
        divisible=True,
        details=details,
    )
    return Probe(vendor="cpu", devices=(device,), offers=OFFERS)
