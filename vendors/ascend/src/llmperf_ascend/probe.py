"""The NPUs of this node that a run can use; never through torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from llmperf import of_one_model, visible_devices
from llmperf.types import DeviceInfo, DeviceSample, Probe

from llmperf_ascend.catalogue import offers_of, table
from llmperf_ascend.npu_smi import Reading, seen

if TYPE_CHECKING:
    from llmperf.types import Plan

VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
HEALTHY = ("OK", "Warning")


def probe() -> Probe:
    """The NPUs of one model that `npu-smi` shows as fit and `ASCEND_RT_VISIBLE_DEVICES` allows.

    `problems` has a line for each that is left out, or one that says why there is none.
    """
    try:
        found = seen()
    except OSError as error:
        return _none((f"no Ascend driver answers: {error}",))
    allowed = visible_devices([_device(one) for one in found.readings], os.environ.get(VISIBLE))
    fit = [one for one in allowed if one.details["health"] in HEALTHY]
    ill = tuple(
        f"NPU {one.index} is left out: its health is {one.details['health']}" for one in allowed if one not in fit
    )
    devices, others = of_one_model(fit, VISIBLE)
    problems = (*found.problems, *ill, *others)
    if not devices:
        return _none(problems or (f"npu-smi shows no NPU, or {VISIBLE} hides all of them",))
    return Probe(
        vendor="ascend",
        devices=devices,
        offers=offers_of(table().find(devices[0].model)),
        driver=found.driver,
        problems=problems,
    )


def samples(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
    """One reading of each NPU; None where the tool gives no answer or a row does not fit. Never raises."""
    try:
        found = {one.index: one for one in seen().readings}
    except OSError:
        found = {}
    return tuple(_sample(index, found.get(index)) for index in devices)


def worker_env(plan: Plan) -> Mapping[str, str]:
    """`ASCEND_RT_VISIBLE_DEVICES` where the planned NPUs are not simply the first ones; else empty."""
    used = [one.index for one in plan.probe.devices[: plan.layout.devices_per_node]]
    return {} if used == list(range(len(used))) else {VISIBLE: ",".join(map(str, used))}


def _device(one: Reading) -> DeviceInfo:
    return DeviceInfo(
        index=one.index,
        model=one.model,
        memory_bytes=one.memory_total_mib * 2**20,
        details={"npu": one.npu, "chip": one.chip, "pci_bus": one.pci_bus, "health": one.health},
    )


def _sample(index: int, one: Reading | None) -> DeviceSample:
    if one is None:
        return DeviceSample(index=index, memory_used_bytes=None, memory_total_bytes=None)
    return DeviceSample(
        index=index,
        memory_used_bytes=one.memory_used_mib * 2**20,
        memory_total_bytes=one.memory_total_mib * 2**20,
        utilisation_percent=one.utilisation_percent,
        power_watts=one.power_watts,
        temperature_celsius=one.temperature_celsius,
    )


def _none(problems: tuple[str, ...]) -> Probe:
    return Probe(vendor="ascend", devices=(), offers=offers_of(None), problems=problems)
