"""The cards of this node that a run can use; never through torch or paddle."""

from __future__ import annotations

import os

from llmperf import of_one_model, visible_devices
from llmperf.types import DeviceInfo, Probe

from llmperf_kunlunxin.cards import STAND_IN, about, machine_lines
from llmperf_kunlunxin.catalogue import offers_of, table
from llmperf_kunlunxin.environment import VISIBLE
from llmperf_kunlunxin.layouts import Reading, read_rows

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
    allowed = visible_devices([_device(one) for one in read.readings], os.environ.get(VISIBLE))
    devices, problems = of_one_model(allowed, VISIBLE)
    if not devices:
        return _none((*read.problems, f"{VISIBLE} hides every card that {tool.name} shows"))
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


def _none(problems: tuple[str, ...]) -> Probe:
    return Probe(vendor="kunlunxin", devices=(), offers=offers_of(None), problems=problems)
