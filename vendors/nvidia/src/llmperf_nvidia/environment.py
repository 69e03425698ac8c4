"""Which GPUs the ranks see, and how torch takes memory from them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmperf.types import Plan

ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
"""Read by every torch, and before `PYTORCH_ALLOC_CONF` where that is read too (torch 2.15: CUDAAllocatorConfig.h)."""
SETTINGS = "expandable_segments:True"


def allocator_settings(plan: Plan) -> Mapping[str, str]:
    """Segments of torch's allocator grow, so that a run near the limit does not fail for fragmentation.

    Empty where torch does not run, or where the user has settings of their own, which the ranks inherit.
    """
    theirs = {ALLOCATOR, "PYTORCH_ALLOC_CONF"} & set(os.environ)
    if theirs or plan.needs is None or plan.needs.runtime != "torch":
        return {}
    return {ALLOCATOR: SETTINGS}


def visible_devices(plan: Plan) -> Mapping[str, str]:
    """`CUDA_VISIBLE_DEVICES` where the planned GPUs are not simply the first ones; else empty.

    Ranks take the visible GPUs by their place in that list. One node's GPUs are named by UUID, which no GPU that
    has gone missing shifts; on several nodes, which have UUIDs of their own, by number.
    """
    used = plan.probe.devices[: plan.layout.devices_per_node]
    if plan.probe.simulated or [one.index for one in used] == list(range(len(used))):
        return {}
    by_uuid = plan.layout.nodes == 1
    named = [one.uuid if by_uuid and one.uuid is not None else str(one.index) for one in used]
    return {"CUDA_VISIBLE_DEVICES": ",".join(named)}
