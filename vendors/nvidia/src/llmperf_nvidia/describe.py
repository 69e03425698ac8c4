"""What NVML tells of one GPU and its place among the others."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from llmperf.types import DeviceInfo

from llmperf_nvidia.nvml import ask
from llmperf_nvidia.throttle import throttle_reasons

LEVELS = {0: "SELF", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""`nvmlGpuTopologyLevel_t` as `nvidia-smi topo -m` writes it; two GPUs on one board are SELF."""
MODES = {0: "off", 1: "on"}


def device_info(library: Any, index: int, handle: Any, others: Sequence[Any]) -> DeviceInfo:
    """One GPU; what it does not show is left out. Raises NVML's error where it does not answer at all."""
    memory = ask(library, lambda: library.nvmlDeviceGetMemoryInfo(handle))
    details = {
        "compute_capability": _capability(library, handle),
        "pci_bus": ask(library, lambda: library.nvmlDeviceGetPciInfo(handle).busId),
        "pcie": _pcie(library, handle),
        "nvlinks": _nvlinks(library, handle),
        "topology": _topology(library, handle, others),
        "ecc": _mode(ask(library, lambda: library.nvmlDeviceGetEccMode(handle))),
        "mig": _mode(ask(library, lambda: library.nvmlDeviceGetMigMode(handle))),
        "power_limit": _watts(ask(library, lambda: library.nvmlDeviceGetEnforcedPowerLimit(handle))),
        "power_limit_default": _watts(ask(library, lambda: library.nvmlDeviceGetPowerManagementDefaultLimit(handle))),
        "highest_clocks": _clocks(library, handle),
        "throttling": _throttling(library, handle),
    }
    return DeviceInfo(
        index=index,
        model=library.nvmlDeviceGetName(handle),
        memory_bytes=memory.total if memory else None,
        uuid=ask(library, lambda: library.nvmlDeviceGetUUID(handle)),
        details={name: value for name, value in details.items() if value is not None},
    )


def _capability(library: Any, handle: Any) -> str | None:
    version = ask(library, lambda: library.nvmlDeviceGetCudaComputeCapability(handle))
    return None if version is None else f"{version[0]}.{version[1]}"


def _pcie(library: Any, handle: Any) -> str | None:
    generation = ask(library, lambda: library.nvmlDeviceGetMaxPcieLinkGeneration(handle))
    width = ask(library, lambda: library.nvmlDeviceGetMaxPcieLinkWidth(handle))
    return None if generation is None or width is None else f"gen {generation} x{width}"


def _nvlinks(library: Any, handle: Any) -> str | None:
    """How many NVLinks are up; None for a GPU without."""
    active = 0
    with suppress(library.NVMLError):  # the first number that is no link, or a GPU without any
        for link in range(library.NVML_NVLINK_MAX_LINKS):
            active += library.nvmlDeviceGetNvLinkState(handle, link)
    return str(active) if active else None


def _topology(library: Any, handle: Any, others: Sequence[Any]) -> str | None:
    """How far each GPU of the node is over PCIe, in their order, as `nvidia-smi topo -m` writes it without NVLink."""
    if len(others) < 2:
        return None
    levels = [
        "X" if other is handle else LEVELS.get(_distance(library, handle, other), "?")  # type: ignore[arg-type]
        for other in others
    ]
    return " ".join(levels)


def _distance(library: Any, handle: Any, other: Any) -> int | None:
    found: int | None = ask(library, lambda: library.nvmlDeviceGetTopologyCommonAncestor(handle, other))
    return found


def _mode(current_and_pending: Any) -> str | None:
    return None if current_and_pending is None else MODES.get(current_and_pending[0])


def _watts(milliwatts: int | None) -> str | None:
    return None if milliwatts is None else f"{milliwatts / 1000:g} W"


def _clocks(library: Any, handle: Any) -> str | None:
    sm = ask(library, lambda: library.nvmlDeviceGetMaxClockInfo(handle, library.NVML_CLOCK_SM))
    memory = ask(library, lambda: library.nvmlDeviceGetMaxClockInfo(handle, library.NVML_CLOCK_MEM))
    return None if sm is None or memory is None else f"SM {sm} MHz, memory {memory} MHz"


def _throttling(library: Any, handle: Any) -> str | None:
    reasons = throttle_reasons(library, handle)
    return None if reasons is None else ", ".join(reasons) or "none"
