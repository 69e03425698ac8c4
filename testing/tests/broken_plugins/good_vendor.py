"""A vendor plugin without a fault: a host that plays a device of its own."""

import time
from dataclasses import replace  # noqa: F401
from pathlib import Path
from types import MappingProxyType

from llmperf import hookimpl
from llmperf.types import DeviceInfo, DeviceSample, Offers, PeakFlops, Probe

NAME = "good"
MEMORY = 2**40
OFFERS = Offers(precisions=("fp32", "bf16"), runtimes=("torch",), collective_backend="gloo")
CPUS = [one.split(":")[1].strip() for one in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in one]
HOST = CPUS[0] if CPUS else "Acme A1"
TFLOPS = {HOST: {"fp32": 1000, "bf16": 2000}, "Acme A2": {"fp32": 4000}}
WATTS = 50.0
SOURCE, DATE = "Acme datasheet, page 2", "2026-01-01"
CALLS = []


def entry(model, **more):
    device = DeviceInfo(index=0, model=model, memory_bytes=MEMORY, kind="cpu", divisible=True)
    return Probe(vendor=NAME, devices=(device,), offers=OFFERS, **more)


@hookimpl
def llmperf_resources():
    return [Path(__file__).parent / "data"]


@hookimpl
def llmperf_probe():
    return entry(HOST)


@hookimpl
def llmperf_catalogue():
    return [entry(model, simulated=True) for model in TFLOPS]


@hookimpl
def llmperf_peak_flops(device_model, dtype):
    flops = TFLOPS.get(device_model, {}).get(dtype)
    if flops is None:
        return None
    return PeakFlops(device_model=device_model, dtype=dtype, flops_per_second=flops * 1e12, source=SOURCE, date=DATE)


@hookimpl
def llmperf_query_memory(devices):
    CALLS.append(devices)
    return tuple(
        DeviceSample(
            index=i,
            memory_used_bytes=2**30,
            memory_total_bytes=MEMORY,
            energy_joules=WATTS * time.monotonic(),
            power_watts=WATTS,
        )
        for i in devices
    )


@hookimpl
def llmperf_worker_env(plan):
    return {"ACME_THREADS": "1", "OMP_NUM_THREADS": "1"}


@hookimpl
def llmperf_setup_device(plan, local_rank):
    return AcmeDevice()


class AcmeEvent:
    def __init__(self):
        self.at = time.perf_counter()

    def ready(self):
        return True

    def seconds_since(self, earlier):
        return self.at - earlier.at


class AcmeDevice:
    places = MappingProxyType({"torch": "cpu"})
    collective_backend = "gloo"
    closed = False

    def event(self):
        return AcmeEvent()

    def synchronize(self):
        pass

    def peak_memory_bytes(self):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))

    def reset_peak_memory(self):
        Path("/proc/self/clear_refs").write_text("5")

    def close(self):
        self.closed = True

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()


# END
