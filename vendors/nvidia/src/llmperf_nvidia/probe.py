"""The GPUs of this node, through NVML and else through `nvidia-smi`; never through torch."""

from __future__ import annotations

import os
from typing import Any

from llmperf.types import DeviceInfo, Offers, Probe

from llmperf_nvidia import smi
from llmperf_nvidia.catalogue import offers


def probe() -> Probe:
    """What is visible here; no devices and one line that says why where there is no driver."""
    driver: str | None
    try:
        driver, devices = _from_nvml()
    except Exception as error:  # NVML's own exceptions, a missing library, a mismatched driver
        try:
            driver, devices = _from_smi()
        except (OSError, ValueError) as second:
            return _none(f"no NVIDIA driver answers: NVML: {_line(error)}; {_line(second)}; install the driver")
    try:
        devices = visible(devices, os.environ.get("CUDA_VISIBLE_DEVICES"))
    except ValueError as error:
        return _none(str(error))
    if not devices:
        return _none("the NVIDIA driver shows no GPU, or CUDA_VISIBLE_DEVICES hides all of them")
    return Probe(vendor="nvidia", devices=devices, offers=_common_offers(devices), driver=driver)


def visible(devices: tuple[DeviceInfo, ...], allowed: str | None) -> tuple[DeviceInfo, ...]:
    """The devices that `CUDA_VISIBLE_DEVICES` allows, in its order; all of them if it is not set.

    As CUDA does, an entry that names no device ends the list. Raises ValueError for MIG entries, which are
    not supported.
    """
    if allowed is None:
        return devices
    chosen = []
    for entry in map(str.strip, allowed.split(",")):
        if entry.startswith("MIG"):
            raise ValueError(f"CUDA_VISIBLE_DEVICES={allowed}: expected whole GPUs, found the MIG slice {entry}")
        named = [one for one in devices if entry in (str(one.index), one.uuid) or _abbreviates(entry, one)]
        if len(named) != 1:
            break
        chosen += named
    return tuple(chosen)


def _abbreviates(entry: str, device: DeviceInfo) -> bool:
    return entry.startswith("GPU-") and device.uuid is not None and device.uuid.startswith(entry)


def _from_nvml() -> tuple[str, tuple[DeviceInfo, ...]]:
    import pynvml  # type: ignore[import-untyped]

    pynvml.nvmlInit()
    try:
        count = pynvml.nvmlDeviceGetCount()
        return pynvml.nvmlSystemGetDriverVersion(), tuple(_nvml_device(pynvml, index) for index in range(count))
    finally:
        pynvml.nvmlShutdown()


def _nvml_device(library: Any, index: int) -> DeviceInfo:
    handle = library.nvmlDeviceGetHandleByIndex(index)
    major, minor = library.nvmlDeviceGetCudaComputeCapability(handle)
    return DeviceInfo(
        index=index,
        model=library.nvmlDeviceGetName(handle),
        memory_bytes=library.nvmlDeviceGetMemoryInfo(handle).total,
        uuid=library.nvmlDeviceGetUUID(handle),
        details={"compute_capability": f"{major}.{minor}"},
    )


def _from_smi() -> tuple[str | None, tuple[DeviceInfo, ...]]:
    rows = smi.query("index", "name", "uuid", "memory.total", "driver_version", "compute_cap")
    devices = tuple(
        DeviceInfo(
            index=int(row["index"] or ""),
            model=row["name"] or "unknown NVIDIA GPU",
            memory_bytes=smi.mebibytes(row["memory.total"]),
            uuid=row["uuid"],
            details={"compute_capability": row["compute_cap"]} if row["compute_cap"] else {},
        )
        for row in rows
    )
    return (rows[0]["driver_version"] if rows else None), devices


def _common_offers(devices: tuple[DeviceInfo, ...]) -> Offers:
    """What all of them offer: that of the oldest."""
    return min((offers(one.details.get("compute_capability")) for one in devices), key=lambda o: len(o.precisions))


def _none(problem: str) -> Probe:
    return Probe(vendor="nvidia", devices=(), offers=offers(None), problems=(problem,))


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
