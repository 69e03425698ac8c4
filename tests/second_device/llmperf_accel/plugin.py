"""Hook implementations of the vendor `accel`."""

import llmperf
from llmperf.types import DeviceInfo, DeviceSample, Offers, PeakFlops, Probe


@llmperf.hookimpl
def llmperf_probe():
    devices = tuple(DeviceInfo(index=index, model="Accel T1", memory_bytes=2**30) for index in range(2))
    offers = Offers(precisions=("fp32", "bf16", "fp16"), runtimes=("torch",), collective_backend="accelcl")
    return Probe(vendor="accel", devices=devices, offers=offers)


@llmperf.hookimpl
def llmperf_peak_flops(device_model, dtype):
    return PeakFlops(device_model=device_model, dtype=dtype, flops_per_second=1e13, source="a test", date="2026-01-01")


@llmperf.hookimpl
def llmperf_query_memory(devices):
    return tuple(DeviceSample(index=index, memory_used_bytes=2**20, memory_total_bytes=2**30) for index in devices)


@llmperf.hookimpl
def llmperf_setup_device(plan, local_rank):
    from llmperf_vendorkit import AcceleratorDevice

    from llmperf_accel.runtime import install

    runtime = install()
    runtime.set_device(local_rank)

    return AcceleratorDevice(
        runtime,
        local_rank,
        collective_backend="accelcl",
        places={"torch": f"accel:{local_rank}"},
        make_event=runtime.Event,
    )
