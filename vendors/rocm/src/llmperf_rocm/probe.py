"""The GPUs of this node that a run can use; never through torch."""

from __future__ import annotations

from llmperf import of_one_model
from llmperf.types import DeviceInfo, Probe

from llmperf_rocm.catalogue import offers_of, table
from llmperf_rocm.gpu import Gpu
from llmperf_rocm.gpus import gpus
from llmperf_rocm.visibility import HIP, allowed

UNKNOWN = "unknown AMD GPU"


def probe() -> Probe:
    """The GPUs of one model that are shown and allowed; `problems` names those left out, or says why there is none."""
    try:
        seen, _ = gpus()
    except OSError as error:
        return _none((str(error),))
    devices, problems = of_one_model(allowed([_device(one) for one in seen]), HIP)
    if not devices:
        return _none(("AMD's driver shows no GPU, or ROCR_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES hides all of them",))
    return Probe(
        vendor="rocm",
        devices=devices,
        offers=offers_of(table().find(devices[0].model)),
        driver=seen[0].driver,
        problems=problems,
    )


def _device(one: Gpu) -> DeviceInfo:
    return DeviceInfo(
        index=one.index,
        model=one.model or UNKNOWN,
        memory_bytes=one.memory_total_bytes,
        uuid=one.uuid,
        details=dict(one.details),
    )


def _none(problems: tuple[str, ...]) -> Probe:
    return Probe(vendor="rocm", devices=(), offers=offers_of(None), problems=problems)
