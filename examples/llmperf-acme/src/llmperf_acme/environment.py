"""The variables of the ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmperf.types import Plan

VISIBLE = "ACME_VISIBLE_DEVICES"
"""The variable by which your runtime is told which devices there are. Edit it to be yours."""


def worker_env(plan: Plan) -> Mapping[str, str]:
    """The planned devices."""
    used = plan.probe.devices[: plan.layout.devices_per_node]
    return {VISIBLE: ",".join(str(one.index) for one in used)}
