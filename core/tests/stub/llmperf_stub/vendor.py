import os

import llmperf
from llmperf.types import DeviceInfo, DeviceRates, DeviceSample, LinkRate, Offers, PeakFlops, Probe


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


if os.environ.get("LLMPERF_STUB_PEAK") == "timed":  # otherwise its peak is published

    @llmperf.hookimpl
    def llmperf_time_peak(device_model, dtype):
        return PeakFlops(
            device_model=device_model,
            dtype=dtype,
            flops_per_second=2e12,
            source="the stub, after the run",
            date="2026-01-01",
            confidence="measured",
        )


@llmperf.hookimpl
def llmperf_device_rates(device_model):
    if os.environ.get("LLMPERF_STUB_RATES") == "none":
        return None
    link = LinkRate(scope="node", bytes_per_second=1e9, latency_seconds=1e-5, source="the stub")
    return DeviceRates(
        device_model=device_model,
        basis="assumed",
        matmul_flops_per_second={"fp32": 1e12},
        attention_flops_per_second={"fp32": 5e11},
        memory_bytes_per_second=1e11,
        launch_seconds=1e-5,
        memory_bytes=2**30,
        links=(link,),
        source="the stub",
        date="2026-01-01",
        overhead_bytes=2**20,
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
