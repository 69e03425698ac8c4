"""Which GPUs a run may see: ROCm asks two variables, the second of which counts what the first has left."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from llmperf import visible_devices
from llmperf.types import DeviceInfo

if TYPE_CHECKING:
    from llmperf.types import Plan

ROCR = "ROCR_VISIBLE_DEVICES"
HIP = "HIP_VISIBLE_DEVICES"
CUDA = "CUDA_VISIBLE_DEVICES"
"""HIP reads it where its own is not set."""


def allowed(devices: Sequence[DeviceInfo]) -> tuple[DeviceInfo, ...]:
    """The devices that the variables leave, in their order, with the numbers that the driver's tool gives them."""
    left = visible_devices(devices, os.environ.get(ROCR))
    counted = [replace(one, index=place) for place, one in enumerate(left)]
    chosen = visible_devices(counted, os.environ.get(HIP, os.environ.get(CUDA)))
    return tuple(left[one.index] for one in chosen)


def worker_env(plan: Plan) -> Mapping[str, str]:
    """Both variables where the planned GPUs are not simply the first ones; else none."""
    used = [one.index for one in plan.probe.devices[: plan.layout.devices_per_node]]
    if used == list(range(len(used))):
        return {}
    return {ROCR: ",".join(map(str, used)), HIP: ",".join(map(str, range(len(used))))}
