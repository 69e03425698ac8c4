"""The device that vendors share, over runtimes that are stand-ins here."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from llmperf.types import Device, DeviceInfo
from llmperf_vendorkit import AcceleratorDevice, of_one_model, planned_indices, visibility_variable, visible_devices


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


THREE = [
    DeviceInfo(index=index, model=model, memory_bytes=None, uuid=f"GPU-{index}{index}")
    for index, model in ((0, "A"), (1, "B"), (4, "A"))
]


@pytest.mark.parametrize(
    ("value", "indices"),
    [(None, [0, 1, 4]), ("", []), ("4, 0", [4, 0]), ("GPU-11", [1]), ("0,7,1", [0]), ("0,0,1", [0]), ("-1", [])],
)
def test_visible_devices(value, indices):
    assert [device.index for device in visible_devices(THREE, value)] == indices


def test_one_model_and_a_line_for_the_others():
    same, problems = of_one_model(THREE, "X_VISIBLE_DEVICES")
    assert [device.index for device in same] == [0, 4]
    reason = "a run measures devices of one model, and the first is A"
    assert problems == (f"devices left out: 1 (B): {reason}; choose others with X_VISIBLE_DEVICES=1",)
    assert of_one_model([], "X") == ((), ())


def test_an_entry_may_abbreviate_a_uuid_where_the_runtime_allows_it():
    assert [device.index for device in visible_devices(THREE, "GPU-4,GPU", uuid_prefix="GPU-")] == [4]
    assert visible_devices(THREE, "GPU-4") == ()


@pytest.mark.parametrize(("used", "expected"), [(THREE[:1], {}), (THREE[1:], {"X": "1,4"})])
def test_ranks_get_the_variable_unless_they_use_the_first_devices(used, expected):
    plan: Any = SimpleNamespace(probe=SimpleNamespace(devices=used), layout=SimpleNamespace(devices_per_node=2))
    assert planned_indices(plan) == tuple(device.index for device in used)
    assert visibility_variable(plan, "X") == expected
