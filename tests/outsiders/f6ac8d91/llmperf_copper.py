"""A vendor with the kit's table of peaks; the device is the host."""

from pathlib import Path
from tempfile import TemporaryDirectory

from llmperf import hookimpl
from llmperf.types import DeviceInfo, DeviceSample, Facts, Offers, Probe, Rule
from llmperf.vendorkit import PeakTable

PEAKS = """
[[device]]
model = "Copper C1"
memory_gib = 16
dense_tflops = { fp32 = 0.1 }
source = "Copper C1 datasheet, page 2"
date = "2026-01-01"
"""


class Mark:
    def __init__(self):
        import time

        self.at = time.monotonic()

    def ready(self):
        return True

    def seconds_since(self, earlier):
        return self.at - earlier.at


class Copper:
    collective_backend = "gloo"

    def __init__(self):
        self.places = {"torch": "cpu"}

    def event(self):
        return Mark()

    def synchronize(self):
        pass

    def peak_memory_bytes(self):
        return None

    def reset_peak_memory(self):
        pass

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


@hookimpl
def llmperf_facts():
    return Facts(environment_names=("COPPER_VISIBLE_DEVICES",), device_aliases={"copper": ("copper",)})


@hookimpl
def llmperf_probe():
    device = DeviceInfo(index=0, model="Copper C1", memory_bytes=2**34, kind="cpu", divisible=True)
    offers = Offers(precisions=("fp32",), runtimes=("torch", "process"), collective_backend="gloo")
    return Probe(vendor="copper", devices=(device,), offers=offers, driver="1.9")


@hookimpl
def llmperf_peak_flops(device_model, dtype):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "peaks.toml"
        path.write_text(PEAKS)
        return PeakTable.read(path, vendor="copper").peak_flops(device_model, dtype)


@hookimpl
def llmperf_query_memory(devices):
    return tuple(DeviceSample(index=i, memory_used_bytes=2**28, memory_total_bytes=2**34) for i in devices)


@hookimpl
def llmperf_setup_device(plan, local_rank):
    return Copper()


def driver_is_new(result):
    if (result.hardware.driver or "").startswith("1."):
        yield "/hardware/driver", f"expected 2.0 or newer, found {result.hardware.driver}"


@hookimpl
def llmperf_rules():
    yield Rule(code="COPPER1", severity="note", title="The driver is new", check=driver_is_new, page="# COPPER1\n")
