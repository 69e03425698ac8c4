"""A rank's GPU through a torch that only plays: no AMD GPU has been asked."""

import sys
from types import SimpleNamespace

import pytest
from llmperf.errors import PluginError
from llmperf_rocm.plugin import llmperf_setup_device

PLAN = SimpleNamespace(needs=SimpleNamespace(runtime="torch"))
"""The part of a plan that binding a device needs."""


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        pass

    def query(self):
        return True

    def elapsed_time(self, later):
        return 250.0


@pytest.fixture
def torch(monkeypatch):
    """`torch` as its ROCm build is, as far as the plugin asks."""
    calls = []
    names = ("set_device", "synchronize", "reset_peak_memory_stats", "empty_cache")
    cuda = {name: lambda *at, name=name: calls.append((name, *at)) for name in names}
    cuda |= {"max_memory_allocated": lambda at: 10, "max_memory_reserved": lambda at: 20, "Event": Event}
    played = SimpleNamespace(
        cuda=SimpleNamespace(**cuda), version=SimpleNamespace(hip="6.4"), __version__="2.9+rocm", calls=calls
    )
    monkeypatch.setitem(sys.modules, "torch", played)
    monkeypatch.delitem(sys.modules, "llmperf_rocm.device", raising=False)
    yield played
    sys.modules.pop("llmperf_rocm.device", None)


def test_a_gpu_is_a_cuda_device_of_torch(torch):
    with llmperf_setup_device(PLAN, 3) as device:
        assert (device.places, device.collective_backend) == ({"torch": "cuda:3"}, "nccl")
        first, second = device.event(), device.event()
        assert second.ready()
        assert second.seconds_since(first) == 0.25
        device.reset_peak_memory()
        device.synchronize()
        assert (device.peak_memory_bytes(), device.peak_reserved_bytes()) == (10, 20)
    assert torch.calls == [("set_device", 3), ("reset_peak_memory_stats", 3), ("synchronize", 3), ("empty_cache",)]


def test_another_build_of_torch_is_one_line(torch):
    torch.version.hip = None
    with pytest.raises(PluginError, match="not built for ROCm"):
        llmperf_setup_device(PLAN, 0)
