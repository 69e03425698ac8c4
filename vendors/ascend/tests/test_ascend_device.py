"""A rank's NPU through a torch_npu that only plays: no NPU has been asked."""

import sys
from types import SimpleNamespace

import pytest
from llmperf.errors import PluginError
from llmperf_ascend.plugin import llmperf_setup_device

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
    """`torch` with the namespace that torch_npu adds, as far as the plugin asks."""
    calls = []
    names = ("set_device", "synchronize", "reset_peak_memory_stats", "empty_cache")
    npu = {name: lambda *at, name=name: calls.append((name, *at)) for name in names}
    npu |= {"max_memory_allocated": lambda at: 10, "max_memory_reserved": lambda at: 20, "Event": Event}
    played = SimpleNamespace(npu=SimpleNamespace(**npu), calls=calls)
    monkeypatch.setitem(sys.modules, "torch", played)
    monkeypatch.setitem(sys.modules, "torch_npu", SimpleNamespace())
    return played


def test_an_npu(torch):
    with llmperf_setup_device(PLAN, 3) as device:
        assert (device.places, device.collective_backend) == ({"torch": "npu:3"}, "hccl")
        first, second = device.event(), device.event()
        assert second.ready()
        assert second.seconds_since(first) == 0.25
        device.reset_peak_memory()
        device.synchronize()
        assert (device.peak_memory_bytes(), device.peak_reserved_bytes()) == (10, 20)
    assert torch.calls == [("set_device", 3), ("reset_peak_memory_stats", 3), ("synchronize", 3), ("empty_cache",)]


def test_without_torch_npu_one_line(torch, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    with pytest.raises(PluginError, match=r"torch_npu, .*, cannot be imported"):
        llmperf_setup_device(PLAN, 0)
