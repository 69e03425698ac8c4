"""The GPUs of this node as the driver shows them: through NVML, else through `nvidia-smi`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from llmperf.types import DeviceInfo

from llmperf_nvidia import nvml, smi
from llmperf_nvidia.nvml import ask, throttle_reasons

LEVELS = {0: "SELF", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""`nvmlGpuTopologyLevel_t` as `nvidia-smi topo -m` writes it; two GPUs on one board are SELF."""
MODES = {0: "off", 1: "on", "Disabled": "off", "Enabled": "on"}
"""States of ECC and MIG, as NVML and as the tool show them."""
OLD_FIELDS = (
    *("index", "name", "uuid", "memory.total", "driver_version", "pci.bus_id", "power.limit"),
    "ecc.mode.current",
)
NEW_FIELDS = ("compute_cap", "mig.mode.current", "power.default_limit", "pcie.link.gen.max", "pcie.link.width.max")
"""Fields that older drivers do not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The GPUs of this node."""

    driver: str | None
    """Version."""
    devices: tuple[DeviceInfo, ...]
    """Those that answer."""
    problems: tuple[str, ...] = ()
    """One line for each that does not."""


def installed_gpus() -> Gpus:
    """The GPUs through NVML, else through `nvidia-smi`; OSError, one line, where neither gives an answer."""
    try:
        return _through_nvml()
    except OSError as error:
        try:
            rows = smi.query(OLD_FIELDS, NEW_FIELDS)
            return Gpus(driver=rows[0]["driver_version"], devices=tuple(map(_from_row, rows)))
        except OSError as second:
            raise OSError(f"no NVIDIA driver answers: {error}; {second}") from None


def _through_nvml() -> Gpus:
    library = nvml.open_library()
    try:
        handles, devices, problems = {}, [], []
        for index in range(library.nvmlDeviceGetCount()):
            try:
                handles[index] = library.nvmlDeviceGetHandleByIndex(index)
            except library.NVMLError as error:
                problems.append(_left_out(library, index, error))
        for index, handle in handles.items():
            try:
                devices.append(_from_handle(library, index, handle, list(handles.values())))
            except library.NVMLError as error:
                problems.append(_left_out(library, index, error))
        driver = ask(library, library.nvmlSystemGetDriverVersion)
        return Gpus(driver=driver, devices=tuple(devices), problems=tuple(problems))
    except library.NVMLError as error:
        raise OSError(f"NVML: {nvml.in_words(library, error)}") from None
    finally:
        ask(library, library.nvmlShutdown)


def _left_out(library: Any, index: int, error: Any) -> str:
    return f"GPU {index} is left out: {nvml.in_words(library, error)}"


def _from_handle(library: Any, index: int, handle: Any, others: Sequence[Any]) -> DeviceInfo:
    """One GPU; details that it does not show are left out. NVML's error if the GPU gives no answer at all."""

    def get(name: str, *arguments: Any) -> Any:
        return ask(library, lambda: getattr(library, f"nvmlDeviceGet{name}")(handle, *arguments))

    memory, capability, bus = get("MemoryInfo"), get("CudaComputeCapability"), get("PciInfo")
    generation, width = get("MaxPcieLinkGeneration"), get("MaxPcieLinkWidth")
    ecc, mig = get("EccMode"), get("MigMode")
    limit, default_limit = get("EnforcedPowerLimit"), get("PowerManagementDefaultLimit")
    sm_clock, memory_clock = (get("MaxClockInfo", kind) for kind in (library.NVML_CLOCK_SM, library.NVML_CLOCK_MEM))
    cuda = ask(library, library.nvmlSystemGetCudaDriverVersion_v2)
    reasons = throttle_reasons(library, handle)
    active = 0
    with suppress(library.NVMLError):  # the first number that is no link, or a GPU without any
        for link in range(library.NVML_NVLINK_MAX_LINKS):
            active += library.nvmlDeviceGetNvLinkState(handle, link)
    return _device(
        index=index,
        model=library.nvmlDeviceGetName(handle),
        memory_bytes=memory.total if memory else None,
        uuid=get("UUID"),
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        pci_bus=bus.busId if bus else None,
        pcie=f"gen {generation} x{width}" if generation is not None and width is not None else None,
        nvlinks=str(active) if active else None,
        topology=_topology(library, handle, others),
        ecc=MODES.get(ecc[0]) if ecc else None,
        mig=MODES.get(mig[0]) if mig else None,
        power_limit=None if limit is None else f"{limit / 1000:g} W",
        power_limit_default=None if default_limit is None else f"{default_limit / 1000:g} W",
        highest_clocks=f"SM {sm_clock} MHz, memory {memory_clock} MHz" if sm_clock and memory_clock else None,
        throttling=None if reasons is None else ", ".join(reasons) or "none",
        cuda=None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",  # the newest that the driver runs
    )


def _topology(library: Any, handle: Any, others: Sequence[Any]) -> str | None:
    """Distance to each GPU of the node over PCIe, in their order, as `nvidia-smi topo -m` writes it without NVLink."""
    if len(others) < 2:
        return None
    levels = []
    for other in others:
        try:
            level = library.nvmlDeviceGetTopologyCommonAncestor(handle, other) if other is not handle else None
        except (library.NVMLError, AttributeError):  # not shown, or an older nvidia-ml-py
            level = None
        levels.append("X" if other is handle else "?" if level is None else LEVELS.get(level, "?"))
    return " ".join(levels)


def _from_row(row: smi.Row) -> DeviceInfo:
    generation, width = row["pcie.link.gen.max"], row["pcie.link.width.max"]
    limit, default_limit = smi.number(row["power.limit"]), smi.number(row["power.default_limit"])
    return _device(
        index=int(row["index"] or 0),
        model=row["name"] or "unknown NVIDIA GPU",
        memory_bytes=smi.mebibytes(row["memory.total"]),
        uuid=row["uuid"],
        compute_capability=row["compute_cap"],
        pci_bus=row["pci.bus_id"],
        pcie=f"gen {generation} x{width}" if generation and width else None,
        ecc=MODES.get(row["ecc.mode.current"] or ""),
        mig=MODES.get(row["mig.mode.current"] or ""),
        power_limit=None if limit is None else f"{limit:g} W",
        power_limit_default=None if default_limit is None else f"{default_limit:g} W",
    )


def _device(*, index: int, model: str, memory_bytes: int | None, uuid: str | None, **details: str | None) -> DeviceInfo:
    known = {name: detail for name, detail in details.items() if detail is not None}
    return DeviceInfo(index=index, model=model, memory_bytes=memory_bytes, uuid=uuid, details=known)
