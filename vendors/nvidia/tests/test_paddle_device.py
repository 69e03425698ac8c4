"""A Paddle framework gets a device that needs no torch. Paddle itself is a stand-in here: no GPU is asked."""

import sys
from types import SimpleNamespace

import pytest
from llmperf_nvidia.plugin import llmperf_setup_device


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
    made = []
    names = ("synchronize", "reset_max_memory_allocated", "reset_max_memory_reserved")
    cuda = {name: lambda index, name=name: made.append((name, index)) for name in names}
    cuda |= {"max_memory_allocated": lambda index: 10, "max_memory_reserved": lambda index: 20}
    cuda["empty_cache"] = lambda: made.append(("empty_cache",))
    device = SimpleNamespace(cuda=SimpleNamespace(**cuda), Event=Event)
    paddle = SimpleNamespace(device=device, set_device=lambda place: made.append(("set_device", place)))
    monkeypatch.setitem(sys.modules, "paddle", paddle)
    monkeypatch.setitem(sys.modules, "torch", None)
    return made


def test_a_paddle_framework_gets_paddles_device(calls):
    plan = SimpleNamespace(worker=SimpleNamespace(needs=SimpleNamespace(runtime="paddle")))
    with llmperf_setup_device(plan, 3) as device:
        assert (device.places, device.collective_backend) == ({"paddle": "gpu:3"}, "nccl")
        first, second = device.event(), device.event()
        assert second.ready()
        assert second.seconds_since(first) == 0.25
        device.reset_peak_memory()
        device.synchronize()
        assert (device.peak_memory_bytes(), device.peak_reserved_bytes()) == (10, 20)
    names = ["set_device", "reset_max_memory_allocated", "reset_max_memory_reserved", "synchronize", "empty_cache"]
    assert [name for name, *_ in calls] == names
