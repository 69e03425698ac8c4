"""What a vendor's variable lets a run see."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from llmperf.types import DeviceInfo
from llmperf_vendorkit import of_one_model, planned_indices, visibility_variable, visible_devices

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
