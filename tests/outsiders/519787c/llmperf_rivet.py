"""A vendor with a table of peaks."""

from pathlib import Path

from llmperf import PeakTable, hookimpl, visible_devices
from llmperf.types import Offers, Probe


@hookimpl
def llmperf_probe():
    offers = Offers(precisions=("fp32",), runtimes=("torch",), collective_backend="gloo")
    return Probe(vendor="rivet", devices=visible_devices((), "RIVET_VISIBLE_DEVICES"), offers=offers)


@hookimpl
def llmperf_peak_flops(device_model, dtype):
    return PeakTable.read(Path(__file__).with_suffix(".toml"), vendor="rivet").peak_flops(device_model, dtype)
