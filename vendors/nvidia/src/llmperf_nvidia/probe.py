"""The GPUs that a run can use, what they can be asked for, and the variables of the ranks; never through torch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmperf.types import DeviceInfo, Dtype, Offers, Probe
from llmperf_vendorkit import Inventory, PeakEntry, PeakTable, Reading, probe_of, visible_devices

from llmperf_nvidia import nvml, smi
from llmperf_nvidia.nvml import MODES, ask, throttle_reasons

LEVELS = {0: "SELF", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""`nvmlGpuTopologyLevel_t` as `nvidia-smi topo -m` writes it; two GPUs on one board are SELF."""


def installed_gpus() -> Inventory:
    """The GPUs through NVML, else through `nvidia-smi`; OSError, one line, where neither gives an answer."""
    try:
        return _through_nvml()
    except OSError as error:
        try:
            return smi.inventory()
        except OSError as second:
            raise OSError(f"no NVIDIA driver answers: {error}; {second}") from None


def _through_nvml() -> Inventory:
    library = nvml.open_library()
    try:
        handles, readings, problems = {}, [], []
        for index in range(library.nvmlDeviceGetCount()):
            try:
                handles[index] = library.nvmlDeviceGetHandleByIndex(index)
            except library.NVMLError as error:
                problems.append(_left_out(library, index, error))
        for index, handle in handles.items():
            try:
                readings.append(_from_handle(library, index, handle, list(handles.values())))
            except library.NVMLError as error:
                problems.append(_left_out(library, index, error))
        driver = ask(library, library.nvmlSystemGetDriverVersion)
        return Inventory(driver=driver, readings=tuple(readings), problems=tuple(problems))
    except library.NVMLError as error:
        raise OSError(f"NVML: {nvml.in_words(library, error)}") from None
    finally:
        ask(library, library.nvmlShutdown)


def _left_out(library: Any, index: int, error: Any) -> str:
    return f"GPU {index} is left out: {nvml.in_words(library, error)}"


def _from_handle(library: Any, index: int, handle: Any, others: Sequence[Any]) -> Reading:
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
    details = {
        "compute_capability": f"{capability[0]}.{capability[1]}" if capability else None,
        "pci_bus": bus.busId if bus else None,
        "pcie": f"gen {generation} x{width}" if generation is not None and width is not None else None,
        "nvlinks": str(active) if active else None,
        "topology": _topology(library, handle, others),
        "ecc": MODES.get(ecc[0]) if ecc else None,
        "mig": MODES.get(mig[0]) if mig else None,
        "power_limit": None if limit is None else f"{limit / 1000:g} W",
        "power_limit_default": None if default_limit is None else f"{default_limit / 1000:g} W",
        "highest_clocks": f"SM {sm_clock} MHz, memory {memory_clock} MHz" if sm_clock and memory_clock else None,
        "throttling": None if reasons is None else ", ".join(reasons) or "none",
        "cuda": None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",  # the newest that the driver runs
    }
    return Reading(
        index=index,
        model=library.nvmlDeviceGetName(handle),
        memory_total_bytes=memory.total if memory else None,
        uuid=get("UUID"),
        details={name: detail for name, detail in details.items() if detail is not None},
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


if TYPE_CHECKING:
    from llmperf.types import Plan
    from llmperf_vendorkit import RateTable

VISIBLE = "CUDA_VISIBLE_DEVICES"
TENSOR_CORES: tuple[Dtype, ...] = ("fp32", "tf32", "bf16", "fp16")
"""Precisions from compute capability 8.0 on."""
FP8_SINCE = (8, 9)
"""Compute capability of the first GPUs whose Tensor Cores compute in fp8 (Ada, Hopper)."""
BEFORE_AMPERE: tuple[Dtype, ...] = ("fp32", "fp16")
FEATURES = {"flash_attention": (8, 0), "cudnn_attention": (8, 0), "efficient_attention": (5, 0), "compiler": (7, 0)}
"""Lowest compute capability of torch's kernels (`sdp_utils.cpp`), and of Triton, with which `torch.compile` works."""
ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
"""Read by every torch, and before `PYTORCH_ALLOC_CONF` where that is read too (torch 2.15: CUDAAllocatorConfig.h)."""
SETTINGS = "expandable_segments:True"


@cache
def table() -> PeakTable:
    """Every GPU whose figures are known."""
    return PeakTable.read(Path(__file__).parent / "data" / "peaks.toml", vendor="nvidia")


@cache
def rate_table() -> RateTable:
    """Assumed rates of GPUs."""
    from llmperf_vendorkit import RateTable

    return RateTable.read(Path(__file__).parent / "data" / "rates.toml", table())


def offers_of(entry: PeakEntry) -> Offers:
    """Offers of a GPU of the table."""
    return offers(entry.details["compute_capability"])


def offers(compute_capability: str | None) -> Offers:
    """Offers of a GPU by compute capability; fp32 alone if that is unknown."""
    version = tuple(map(int, compute_capability.split("."))) if compute_capability else (0, 0)
    precisions = TENSOR_CORES if version >= (8, 0) else BEFORE_AMPERE if version >= (7, 0) else ("fp32",)
    return Offers(
        precisions=(*precisions, "fp8") if version >= FP8_SINCE else precisions,
        runtimes=("torch", "paddle"),
        collective_backend="nccl",
        features=tuple(name for name, since in FEATURES.items() if version >= since),
    )


def probe() -> Probe:
    """The whole GPUs of one model that answer and that `CUDA_VISIBLE_DEVICES` allows."""
    allowed = os.environ.get(VISIBLE)
    try:
        gpus = installed_gpus()
    except OSError as error:
        return _no_gpu(str(error))
    for entry in (allowed or "").split(","):
        if entry.strip().startswith("MIG"):
            return _no_gpu(f"{VISIBLE}={allowed}: expected whole GPUs, found the MIG slice {entry.strip()}")
    devices = [reading.device("unknown NVIDIA GPU") for reading in gpus.readings]
    visible = visible_devices(devices, allowed, uuid_prefix="GPU-")
    sliced = [device.index for device in visible if device.details.get("mig") == "on"]
    found = probe_of(
        [_with_capability(device) for device in visible if device.index not in sliced],
        vendor="nvidia",
        variable=VISIBLE,
        offers=lambda device: _offers_here(device, gpus.driver),
        shown=len(devices) - len(sliced),
        driver=gpus.driver,
        problems=[
            *gpus.problems,
            *([] if gpus.readings or gpus.problems else ["the NVIDIA driver shows no GPU"]),
            *(
                f"GPU {index} is left out: it is in MIG mode, and slices are not measured (turn it off: nvidia-smi -i"
                f" {index} -mig 0)"
                for index in sliced
            ),
        ],
    )
    return replace(found, interconnect=interconnect(found.devices))


def _offers_here(device: DeviceInfo | None, driver: str | None) -> Offers:
    from llmperf_nvidia.runtimes import runtime_problems

    if device is None:
        return offers(None)
    return replace(offers(device.details.get("compute_capability")), runtime_problems=runtime_problems(device, driver))


def _with_capability(device: DeviceInfo) -> DeviceInfo:
    """The device with the table's compute capability, for drivers whose tool does not show it."""
    entry = table().find(device.model)
    if entry is None or "compute_capability" in device.details or "compute_capability" not in entry.details:
        return device
    capability = {"compute_capability": entry.details["compute_capability"]}
    return replace(device, details={**device.details, **capability})


def interconnect(devices: Sequence[DeviceInfo]) -> str | None:
    """NVLink if all GPUs have links that are up, else PCIe; None where unknown, and without GPUs."""
    links = [int(device.details.get("nvlinks", 0)) for device in devices]
    if links and all(links):
        each = str(links[0]) if len(set(links)) == 1 else f"{min(links)} to {max(links)}"
        return f"NVLink, {each} links each"
    buses = {device.details.get("pcie") for device in devices}
    return f"PCIe {buses.pop()}" if len(buses) == 1 and None not in buses else None


def _no_gpu(problem: str) -> Probe:
    return Probe(vendor="nvidia", devices=(), offers=offers(None), problems=(problem,))


def worker_env(plan: Plan) -> dict[str, str]:
    """The variables of the ranks: which GPUs they see, numbered as NVML does, torch's allocator, NCCL's interface."""
    from llmperf import interface_variables

    interface = interface_variables(plan, "NCCL_SOCKET_IFNAME")
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **_allocator_settings(plan), **_visible_gpus(plan), **interface}


def _allocator_settings(plan: Plan) -> Mapping[str, str]:
    """Growing segments for torch's allocator, unless the user has settings: a run near the limit does not fragment."""
    users = {ALLOCATOR, "PYTORCH_ALLOC_CONF"} & set(os.environ)
    if users or plan.worker.needs.runtime != "torch":
        return {}
    return {ALLOCATOR: SETTINGS}


def _visible_gpus(plan: Plan) -> Mapping[str, str]:
    """`CUDA_VISIBLE_DEVICES` where the planned GPUs are not the first ones: by UUID, on several nodes by number."""
    used = plan.probe.devices[: plan.layout.devices_per_node]
    if plan.probe.simulated or [device.index for device in used] == list(range(len(used))):
        return {}
    by_uuid = plan.layout.nodes == 1
    names = [device.uuid if by_uuid and device.uuid is not None else str(device.index) for device in used]
    return {VISIBLE: ",".join(names)}
