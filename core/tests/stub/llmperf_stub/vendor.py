from __future__ import annotations

import os

import llmperf
from llmperf.types import DeviceInfo, DeviceSample, Offers, PeakFlops, Probe


@llmperf.hookimpl
def llmperf_probe():
    device = DeviceInfo(index=0, model="Stub S1", memory_bytes=2**30, kind="cpu", divisible=True)
    offers = Offers(precisions=("fp32",), runtimes=("stub",), collective_backend="none")
    return Probe(vendor="stub", devices=(device,), offers=offers, driver="1.2")


@llmperf.hookimpl
def llmperf_peak_flops(device_model, dtype):
    return PeakFlops(
        device_model=device_model, dtype=dtype, flops_per_second=1e12, source="the stub", date="2026-01-01"
    )


@llmperf.hookimpl
def llmperf_query_memory(devices):
    if os.environ.get("LLMPERF_STUB_SAMPLER") == "raise":
        raise RuntimeError("the management library is gone")
    return tuple(
        DeviceSample(index=i, memory_used_bytes=2**20, memory_total_bytes=2**30, power_watts=50.0) for i in devices
    )


@llmperf.hookimpl
def llmperf_setup_device(plan, local_rank):
    from llmperf_stub.device import StubDevice

    return StubDevice()
