"""The devices of this node that a run can use; never through torch."""

from __future__ import annotations

import os

from llmperf import of_one_model, visible_devices
from llmperf.types import DeviceInfo, Probe

from llmperf_acme.catalogue import offers_of, table
from llmperf_acme.environment import VISIBLE
from llmperf_acme.tool import COMMAND, Row, rows


def probe() -> Probe:
    """The devices of one model that are allowed; `problems` names those left out, or says why there is none."""
    try:
        seen = rows()
    except OSError as error:
        return _none(str(error))
    devices, problems = of_one_model(visible_devices([_device(one) for one in seen], os.environ.get(VISIBLE)), VISIBLE)
    if not devices:
        return _none(f"{COMMAND[0]} shows no device, or {VISIBLE} hides all of them")
    return Probe(
        vendor="acme",
        devices=devices,
        offers=offers_of(table().find(devices[0].model)),
        driver=seen[0].driver,
        problems=problems,
    )


def _device(row: Row) -> DeviceInfo:
    return DeviceInfo(index=row.index, model=row.model, memory_bytes=row.memory_total_mib * 2**20, uuid=row.uuid)


def _none(problem: str) -> Probe:
    return Probe(vendor="acme", devices=(), offers=offers_of(None), problems=(problem,))
