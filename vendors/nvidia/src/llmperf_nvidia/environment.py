"""Which GPUs the ranks see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmperf.types import Plan


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
