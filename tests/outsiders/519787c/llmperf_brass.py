"""A vendor that uses nothing but types; the device is the host."""

import os

from llmperf import hookimpl
from llmperf.types import DeviceInfo, DeviceSample, Offers, PeakFlops, Probe


class Brass:
    torch_device = "cpu"
    paddle_place = None
    collective_backend = "gloo"

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


@hookimpl
def llmperf_probe():
    devices = [
        DeviceInfo(index=i, model="Brass B1", memory_bytes=2**34, kind="cpu") for i in range(os.cpu_count() or 1)
    ]
    offers = Offers(precisions=("fp32",), runtimes=("torch",), collective_backend="gloo")
    return Probe(vendor="brass", devices=tuple(devices), offers=offers, driver="3.1")


@hookimpl
def llmperf_peak_flops(device_model, dtype):
    return PeakFlops(
        device_model=device_model, dtype=dtype, flops_per_second=1e11, source="Brass B1 datasheet", date="2025-01-01"
    )


@hookimpl
def llmperf_query_memory(devices):
    return tuple(DeviceSample(index=i, memory_used_bytes=2**28, memory_total_bytes=2**34) for i in devices)


@hookimpl
def llmperf_setup_device(plan, local_rank):
    return Brass()
