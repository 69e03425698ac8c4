"""What a vendor's variable lets a run see."""

from __future__ import annotations

import pytest
from llmperf.types import DeviceInfo
from llmperf.vendorkit import of_one_model, visible_devices

THREE = [
    DeviceInfo(index=index, model=model, memory_bytes=None, uuid=f"GPU-{index}{index}")
    for index, model in ((0, "A"), (1, "B"), (4, "A"))
]


@pytest.mark.parametrize(
    ("value", "indices"),
    [
        (None, [0, 1, 4]),
        ("", []),
        ("4, 0", [4, 0]),
        ("GPU-11", [1]),
        ("0,7,1", [0]),
        ("0,0,1", [0]),
        ("-1", []),
    ],
)
def test_visible_devices(value: str | None, indices: list[int]) -> None:
    assert [one.index for one in visible_devices(THREE, value)] == indices


def test_one_model_and_a_line_for_the_others() -> None:
    same, problems = of_one_model(THREE, "X_VISIBLE_DEVICES")
    assert [one.index for one in same] == [0, 4]
    reason = "a run measures devices of one model, and the first is A"
    assert problems == (f"devices left out: 1 (B): {reason}; choose others with X_VISIBLE_DEVICES=1",)
    assert of_one_model([], "X") == ((), ())
