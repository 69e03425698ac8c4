"""The NPUs of this node that a run can use; never through torch."""

from __future__ import annotations

import os

from llmperf import of_one_model, visible_devices
from llmperf.types import DeviceInfo, Probe

from llmperf_ascend.catalogue import offers_of, table
from llmperf_ascend.npus import Npu, read_table

VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
WELL = ("OK", "Warning")
"""What the driver says of an NPU that works."""


def probe() -> Probe:
    """The NPUs of one model that work and are allowed; `problems` names those left out, or says why there is none."""
    try:
        seen = read_table()
    except OSError as error:
        return _none((f"no Ascend driver answers: {error}",))
    ill = [f"NPU {one.index}: its health is {one.health}" + _left_out(one) for one in seen.npus if one.health != "OK"]
    well = [_device(one) for one in seen.npus if one.health in WELL]
    devices, problems = of_one_model(visible_devices(well, os.environ.get(VISIBLE)), VISIBLE)
    told = (*seen.problems, *ill, *problems)
    if not devices:
        return _none(told or (f"{VISIBLE} hides every NPU that npu-smi shows",))
    return Probe(
        vendor="ascend",
        devices=devices,
        offers=offers_of(table().find(devices[0].model)),
        driver=seen.driver,
        problems=told,
    )


def _left_out(one: Npu) -> str:
    return "" if one.health in WELL else ", and it is left out"


def _device(one: Npu) -> DeviceInfo:
    return DeviceInfo(
        index=one.index,
        model=one.name if one.name.startswith("Ascend") else f"Ascend {one.name}",
        memory_bytes=one.memory_total_mb * 2**20,
        details={"npu": one.number, "pci_bus": one.bus},
    )


def _none(problems: tuple[str, ...]) -> Probe:
    return Probe(vendor="ascend", devices=(), offers=offers_of(None), problems=problems)
