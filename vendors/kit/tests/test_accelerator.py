"""The device that vendors share, over runtimes that are stand-ins here."""

from __future__ import annotations

import time

import pytest
from llmperf.types import Device
from llmperf_vendorkit import AcceleratorDevice


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


def device(runtime, make_event):
    return AcceleratorDevice(runtime, 3, collective_backend="nccl", places={"torch": "cuda:3"}, make_event=make_event)


@pytest.mark.parametrize(
    "resets", [("reset_peak_memory_stats",), ("reset_max_memory_allocated", "reset_max_memory_reserved")]
)
def test_memory_and_waiting_are_those_of_its_index(played, resets):
    """The functions of torch, and those of Paddle."""
    runtime = played.runtime("synchronize", *resets)
    with device(runtime, runtime.Event) as shown:
        checked: Device = shown
        assert (checked.places, checked.collective_backend) == ({"torch": "cuda:3"}, "nccl")
        played.use(shown)
    assert played.calls == [*((reset, 3) for reset in resets), ("synchronize", 3), ("empty_cache",)]


@pytest.mark.parametrize(("make_event", "tells"), [(Clock, True), (Stopped, False), (Missing, False)])
def test_events_tell_time_even_where_the_runtimes_do_not(played, make_event, tells):
    shown = device(played.runtime("synchronize"), make_event)
    assert shown.check_events(lambda: time.sleep(0.001)) is tells
    first = shown.event()
    time.sleep(0.02)
    second = shown.event()
    assert second.ready()
    assert 0.015 < second.seconds_since(first) < 5
