"""What the driver shows of this node: through NVML, else through `nvidia-smi`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from llmperf.types import DeviceInfo

from llmperf_nvidia import nvml, smi
from llmperf_nvidia.catalogue import table
from llmperf_nvidia.describe import device_info

OLD_FIELDS = (
    "index",
    "name",
    "uuid",
    "memory.total",
    "driver_version",
    "pci.bus_id",
    "power.limit",
    "ecc.mode.current",
)
NEW_FIELDS = ("compute_cap", "mig.mode.current", "power.default_limit", "pcie.link.gen.max", "pcie.link.width.max")
MODES = {"Enabled": "on", "Disabled": "off"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The GPUs of this node."""

    driver: str | None
    """Version."""
    devices: tuple[DeviceInfo, ...]
    """Those that answer."""
    problems: tuple[str, ...] = ()
    """One line for each that does not."""


def through_nvml() -> Seen:
    """All that NVML shows; OSError, one line, where it cannot be used."""
    library = nvml.open_library()
    try:
        return _through(library)
    except library.NVMLError as error:
        raise OSError(f"NVML: {nvml.in_words(library, error)}") from None
    finally:
        nvml.ask(library, library.nvmlShutdown)


def _through(library: Any) -> Seen:
    handles, devices, problems = {}, [], []
    for index in range(library.nvmlDeviceGetCount()):
        try:
            handles[index] = library.nvmlDeviceGetHandleByIndex(index)
        except library.NVMLError as error:
            problems.append(_left_out(library, index, error))
    cuda = _cuda_version(library)
    for index, handle in handles.items():
        try:
            devices.append(_with_cuda(device_info(library, index, handle, list(handles.values())), cuda))
        except library.NVMLError as error:
            problems.append(_left_out(library, index, error))
    driver = nvml.ask(library, library.nvmlSystemGetDriverVersion)
    return Seen(driver=driver, devices=tuple(devices), problems=tuple(problems))


def _left_out(library: Any, index: int, error: Any) -> str:
    return f"GPU {index} is left out: {nvml.in_words(library, error)}"


def _cuda_version(library: Any) -> str | None:
    """The newest CUDA that the driver runs."""
    version = nvml.ask(library, library.nvmlSystemGetCudaDriverVersion_v2)
    return None if version is None else f"{version // 1000}.{version % 1000 // 10}"


def _with_cuda(device: DeviceInfo, cuda: str | None) -> DeviceInfo:
    return device if cuda is None else replace(device, details={**device.details, "cuda": cuda})


def through_smi() -> Seen:
    """What the tool's table shows; OSError, one line, where there is no answer."""
    rows = smi.query(OLD_FIELDS, NEW_FIELDS)
    return Seen(
        driver=rows[0]["driver_version"],
        devices=tuple(map(_from_row, rows)),
    )


def _from_row(row: smi.Row) -> DeviceInfo:
    model = row["name"] or "unknown NVIDIA GPU"
    generation, width = row["pcie.link.gen.max"], row["pcie.link.width.max"]
    details = {
        "compute_capability": row["compute_cap"] or _capability(model),
        "pci_bus": row["pci.bus_id"],
        "pcie": f"gen {generation} x{width}" if generation and width else None,
        "ecc": MODES.get(row["ecc.mode.current"] or ""),
        "mig": MODES.get(row["mig.mode.current"] or ""),
        "power_limit": _watts(row["power.limit"]),
        "power_limit_default": _watts(row["power.default_limit"]),
    }
    return DeviceInfo(
        index=int(row["index"] or 0),
        model=model,
        memory_bytes=smi.mebibytes(row["memory.total"]),
        uuid=row["uuid"],
        details={name: value for name, value in details.items() if value is not None},
    )


def _watts(text: str | None) -> str | None:
    watts = smi.number(text)
    return None if watts is None else f"{watts:g} W"


def _capability(model: str) -> str | None:
    """By the peak table, for drivers whose tool does not show it."""
    entry = table().find(model)
    return None if entry is None else entry.details.get("compute_capability")
