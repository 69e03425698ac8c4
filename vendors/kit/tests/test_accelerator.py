"""The device that vendors share, over runtimes that are stand-ins here."""

from __future__ import annotations

import time

import pytest
from llmperf.types import Device
from llmperf_vendorkit import AcceleratorDevice


class Runtime:
    """A namespace as torch has it; Paddle's has the two other resets."""

    def __init__(self):
        self.calls: list[str] = []

    def synchronize(self, device=None):
        self.calls.append(f"synchronize {device}")

    def max_memory_allocated(self, device=None):
        return 10

    def max_memory_reserved(self, device=None):
        return 20

    def reset_peak_memory_stats(self, device=None):
        self.calls.append(f"reset {device}")

    def empty_cache(self):
        self.calls.append("empty")


class PaddleRuntime(Runtime):
    reset_peak_memory_stats = property()

    def reset_max_memory_allocated(self, device=None):
        self.calls.append(f"reset allocated {device}")

    def reset_max_memory_reserved(self, device=None):
        self.calls.append(f"reset reserved {device}")


class Clock:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = time.perf_counter()

    def query(self):
        return True

    def elapsed_time(self, later):
        return (later.at - self.at) * 1000


class Stopped(Clock):
    def elapsed_time(self, later):
        return 0.0


class Missing(Clock):
    def elapsed_time(self, later):
        raise RuntimeError("not supported")


def device(runtime, make_event=Clock):
    return AcceleratorDevice(runtime, 3, collective_backend="nccl", places={"torch": "cuda:3"}, make_event=make_event)


@pytest.mark.parametrize(
    ("runtime", "resets"), [(Runtime(), ["reset 3"]), (PaddleRuntime(), ["reset allocated 3", "reset reserved 3"])]
)
def test_memory_and_waiting_are_those_of_its_index(runtime, resets):
    with device(runtime) as shown:
        checked: Device = shown
        assert (checked.places, checked.collective_backend) == ({"torch": "cuda:3"}, "nccl")
        shown.reset_peak_memory()
        shown.synchronize()
        assert (shown.peak_memory_bytes(), shown.peak_reserved_bytes()) == (10, 20)
    assert runtime.calls == [*resets, "synchronize 3", "empty"]


@pytest.mark.parametrize(("make_event", "tells"), [(Clock, True), (Stopped, False), (Missing, False)])
def test_events_tell_time_even_where_the_runtimes_do_not(make_event, tells):
    shown = device(Runtime(), make_event)
    assert shown.check_events(lambda: time.sleep(0.001)) is tells
    first = shown.event()
    time.sleep(0.02)
    second = shown.event()
    assert second.ready()
    assert 0.015 < second.seconds_since(first) < 5
