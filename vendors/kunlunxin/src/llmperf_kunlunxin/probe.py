"""The cards of this node that a run can use; never through torch or paddle."""

from __future__ import annotations

import os
from collections.abc import Sequence

from llmperf.types import DeviceInfo, Probe

from llmperf_kunlunxin.catalogue import offers_of, table
from llmperf_kunlunxin.layouts import Reading, read_rows
from llmperf_kunlunxin.tool import STAND_IN, about, machine_lines

UNKNOWN = "unknown Kunlunxin XPU"


def probe() -> Probe:
    """The cards of one model that `xpu_smi` shows plausibly and `XPU_VISIBLE_DEVICES` allows.

    `problems` has a line for each row that does not fit and for each card left out, or one that says why there is none.
    Simulated where the tool says of itself that it only plays a machine.
    """
    try:
        tool = about()
        read = read_rows(machine_lines(tool.name), tool.major, tool.models)
    except OSError as error:
        return _none((str(error),))
    devices, problems = _one_model(_allowed([_device(one) for one in read.readings]))
    if not devices:
        return _none((*read.problems, "XPU_VISIBLE_DEVICES hides every card that xpu_smi shows"))
    return Probe(
        vendor="kunlunxin",
        devices=devices,
        offers=offers_of(table().find(devices[0].model)),
        driver=f"{tool.driver} ({STAND_IN})" if tool.stand_in else tool.driver,
        simulated=tool.stand_in,
        problems=(*read.problems, *problems),
    )


def _device(one: Reading) -> DeviceInfo:
    details = {"pci_bus": one.pci_bus}
    return DeviceInfo(
        index=one.index,
        model=one.model or UNKNOWN,
        memory_bytes=one.memory_total_mib * 2**20,
        uuid=one.serial,
        details=details,
    )


def _allowed(devices: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """Those that `XPU_VISIBLE_DEVICES` names, in its order; all of them if it is not set."""
    allowed = os.environ.get("XPU_VISIBLE_DEVICES")
    if allowed is None:
        return list(devices)
    by_number = {str(one.index): one for one in devices}
    return [by_number[entry] for entry in map(str.strip, allowed.split(",")) if entry in by_number]


def _one_model(devices: Sequence[DeviceInfo]) -> tuple[tuple[DeviceInfo, ...], list[str]]:
    """Those of the first one's model, and a line that names the others."""
    same = tuple(one for one in devices if one.model == devices[0].model)
    others = [one for one in devices if one.model != devices[0].model]
    if not others:
        return same, []
    named = ", ".join(f"{one.index} ({one.model})" for one in others)
    chosen = ",".join(str(one.index) for one in others if one.model == others[0].model)
    reason = f"a run measures cards of one model, and the first is {same[0].model}"
    return same, [f"cards left out: {named}: {reason}; choose others with XPU_VISIBLE_DEVICES={chosen}"]


def _none(problems: tuple[str, ...]) -> Probe:
    return Probe(vendor="kunlunxin", devices=(), offers=offers_of(None), problems=problems)
