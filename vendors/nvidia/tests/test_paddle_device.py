"""A Paddle framework gets a device that needs no torch. Paddle itself is a stand-in here: no GPU is asked."""

import sys
from types import SimpleNamespace

from llmperf_nvidia.plugin import llmperf_setup_device


def test_a_paddle_framework_gets_paddles_device(played, monkeypatch):
    cuda = played.runtime("synchronize", "reset_max_memory_allocated", "reset_max_memory_reserved")
    device = SimpleNamespace(cuda=cuda, Event=cuda.Event)
    paddle = SimpleNamespace(device=device, set_device=lambda place: played.calls.append(("set_device", place)))
    monkeypatch.setitem(sys.modules, "paddle", paddle)
    monkeypatch.setitem(sys.modules, "torch", None)
    plan = SimpleNamespace(worker=SimpleNamespace(needs=SimpleNamespace(runtime="paddle")))
    with llmperf_setup_device(plan, 3) as device:
        assert (device.places, device.collective_backend) == ({"paddle": "gpu:3"}, "nccl")
        played.use(device)
    names = ["set_device", "reset_max_memory_allocated", "reset_max_memory_reserved", "synchronize", "empty_cache"]
    assert [name for name, *_ in played.calls] == names
