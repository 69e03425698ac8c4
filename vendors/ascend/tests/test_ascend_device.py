"""A rank's NPU through a torch_npu that only plays: no NPU has been asked."""

import sys
from types import SimpleNamespace

import pytest
from llmperf.errors import PluginError
from llmperf_ascend.plugin import llmperf_setup_device


def test_an_npu(played, monkeypatch):
    npu = played.runtime("set_device", "synchronize", "reset_peak_memory_stats")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(npu=npu))
    monkeypatch.setitem(sys.modules, "torch_npu", SimpleNamespace())
    with llmperf_setup_device(played.plan, 3) as device:
        assert (device.places, device.collective_backend) == ({"torch": "npu:3"}, "hccl")
        played.use(device)
    assert played.calls == [("set_device", 3), ("reset_peak_memory_stats", 3), ("synchronize", 3), ("empty_cache",)]
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    with pytest.raises(PluginError, match=r"torch_npu, .*, cannot be imported"):
        llmperf_setup_device(played.plan, 0)
