"""The GPUs that a run can use, what they can be asked for, and the variables of the ranks; never through torch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.types import DeviceInfo, Dtype, Offers, Probe
from llmperf_vendorkit import PeakEntry, PeakTable, of_one_model, visible_devices

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
    from llmperf_nvidia.inventory import installed_gpus
    from llmperf_nvidia.runtimes import runtime_problems

    allowed = os.environ.get(VISIBLE)
    try:
        gpus = installed_gpus()
    except OSError as error:
        return _no_gpu((str(error),))
    for entry in (allowed or "").split(","):
        if entry.strip().startswith("MIG"):
            message = f"{VISIBLE}={allowed}: expected whole GPUs, found the MIG slice {entry.strip()}"
            return _no_gpu((message,))
    visible = visible_devices(gpus.devices, allowed, uuid_prefix="GPU-")
    whole = [_with_capability(device) for device in visible if device.details.get("mig") != "on"]
    sliced = [
        f"GPU {device.index} is left out: it is in MIG mode, and slices are not measured (turn it off: nvidia-smi -i"
        f" {device.index} -mig 0)"
        for device in visible
        if device.details.get("mig") == "on"
    ]
    devices, others = of_one_model(whole, VISIBLE)
    problems = (*gpus.problems, *sliced, *others)
    if not devices:
        return _no_gpu(problems or (f"the NVIDIA driver shows no GPU, or {VISIBLE} hides all of them",))
    return Probe(
        vendor="nvidia",
        devices=devices,
        offers=replace(
            offers(devices[0].details.get("compute_capability")),
            runtime_problems=runtime_problems(devices[0], gpus.driver),
        ),
        driver=gpus.driver,
        interconnect=interconnect(devices),
        problems=problems,
    )


def _with_capability(device: DeviceInfo) -> DeviceInfo:
    """The device with the table's compute capability, for drivers whose tool does not show it."""
    entry = table().find(device.model)
    if entry is None or "compute_capability" in device.details or "compute_capability" not in entry.details:
        return device
    capability = {"compute_capability": entry.details["compute_capability"]}
    return replace(device, details={**device.details, **capability})


def interconnect(devices: Sequence[DeviceInfo]) -> str | None:
    """NVLink if all GPUs have links that are up, else PCIe; None where unknown."""
    links = [int(device.details.get("nvlinks", 0)) for device in devices]
    if all(links):
        each = str(links[0]) if len(set(links)) == 1 else f"{min(links)} to {max(links)}"
        return f"NVLink, {each} links each"
    buses = {device.details.get("pcie") for device in devices}
    return f"PCIe {buses.pop()}" if len(buses) == 1 and None not in buses else None


def _no_gpu(problems: tuple[str, ...]) -> Probe:
    return Probe(vendor="nvidia", devices=(), offers=offers(None), problems=problems)


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
