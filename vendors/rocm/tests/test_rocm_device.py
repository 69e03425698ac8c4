"""A rank's GPU through a torch that only plays: no AMD GPU has been asked."""

import sys
from types import SimpleNamespace

import pytest
from llmperf.errors import PluginError
from llmperf_rocm.plugin import llmperf_setup_device


def test_a_gpu_is_a_cuda_device_of_torch_and_another_build_of_it_is_refused(played, monkeypatch):
    cuda, version = played.runtime("set_device", "synchronize", "reset_peak_memory_stats"), SimpleNamespace(hip="6.4")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, version=version, __version__="2.9+rocm"))
    monkeypatch.setitem(sys.modules, "llmperf_rocm.device", None)
    del sys.modules["llmperf_rocm.device"]
    with llmperf_setup_device(played.plan, 3) as device:
        assert (device.places, device.collective_backend) == ({"torch": "cuda:3"}, "nccl")
        played.use(device)
    assert played.calls == [("set_device", 3), ("reset_peak_memory_stats", 3), ("synchronize", 3), ("empty_cache",)]
    version.hip = None
    with pytest.raises(PluginError, match="not built for ROCm"):
        llmperf_setup_device(played.plan, 0)
