"""A rank's NPU through a runtime that only plays: no NPU has been asked."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from llmperf.errors import PluginError
from llmperf_ascend.plugin import llmperf_setup_device


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
def calls(monkeypatch):
    """What `torch.npu` is asked to do."""
    noted = []
    names = ("set_device", "synchronize", "reset_peak_memory_stats", "empty_cache")
    npu = {name: lambda *at, name=name: noted.append((name, *at)) for name in names}
    npu |= {"max_memory_allocated": lambda at: 10, "max_memory_reserved": lambda at: 20, "Event": Event}
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(npu=SimpleNamespace(**npu)))
    monkeypatch.setitem(sys.modules, "torch_npu", SimpleNamespace())
    return noted


def test_an_npu(calls):
    with llmperf_setup_device(None, 3) as device:
        assert (device.torch_device, device.paddle_place, device.collective_backend) == ("npu:3", None, "hccl")
        assert device.event().seconds_since(device.event()) == 0.25
        assert (device.peak_memory_bytes(), device.peak_reserved_bytes()) == (10, 20)
    assert calls == [("set_device", 3), ("empty_cache",)]


def test_without_torch_npu_one_line(calls, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    with pytest.raises(PluginError, match="torch_npu cannot be imported"):
        llmperf_setup_device(None, 0)
