"""The variables of the vendor's libraries in each rank."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from llmperf_kunlunxin.catalogue import DATA, table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from llmperf.types import Plan

FAMILIES = ("BKCL_", "XPU_", "XDNN_", "XMLIR_", "XBLAS_")
"""Variables of the collective library, the runtime, the operators, XPyTorch and the matrix products."""
VISIBLE = "XPU_VISIBLE_DEVICES"
ALWAYS = {"XPU_EVENT_KL3_ENABLE": "1"}
"""Without it XPyTorch's events tell 0 s, says DeepSpeed's klxpu accelerator."""


def worker_env(plan: Plan) -> Mapping[str, str]:
    """What the published case sets, over it what the user has set, and over both which cards the ranks see.

    So the ranks of other nodes have it too, and the plan records it.
    """
    own = {name: value for name, value in os.environ.items() if name.startswith(FAMILIES) and name != VISIBLE}
    return {**ALWAYS, **dict(_published(plan)), **own, **_visible(plan)}


@cache
def data() -> dict[str, Any]:
    """The package's `environment.toml`."""
    return tomllib.loads((DATA / "environment.toml").read_text(encoding="utf-8"))


def _published(plan: Plan) -> Iterator[tuple[str, str]]:
    entry = table().find(plan.probe.devices[0].model) if plan.probe.devices else None
    for one in data()["environment"]:
        if entry is not None and entry.model in one["device"] and plan.spec.case in one["case"]:
            yield from one["variables"].items()


def _visible(plan: Plan) -> dict[str, str]:
    """The planned cards by number, unless they are simply the first ones or those of a machine that is not here."""
    used = [one.index for one in plan.probe.devices[: plan.layout.devices_per_node]]
    return {} if used == list(range(len(used))) else {VISIBLE: ",".join(map(str, used))}
