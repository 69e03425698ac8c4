"""Hook implementations for NVIDIA GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from pathlib import Path

    from llmperf.types import Device, DeviceRates, DeviceSample, Dtype, Facts, PeakFlops, Plan, Probe, Rule


@hookimpl
def llmperf_resources() -> Iterable[Path]:
    """Tuning overlays for the published cases on GPUs with less or more memory than they were made for."""
    from pathlib import Path

    return [Path(__file__).parent / "data"]


@hookimpl
def llmperf_facts() -> Facts:
    """The variables of CUDA, cuBLAS and NCCL, and the names of the vendor."""
    from llmperf.types import Facts

    return Facts(
        environment_names=(
            "CUBLAS_WORKSPACE_CONFIG",
            "NVIDIA_TF32_OVERRIDE",
            "PYTORCH_CUDA_ALLOC_CONF",
        ),
        environment_prefixes=("CUDA_", "NCCL_"),
        device_aliases={"nvidia": ("nvidia", "geforce", "tesla", "英伟达")},
    )


@hookimpl
def llmperf_probe() -> Probe:
    """The GPUs of one model that NVML, or else `nvidia-smi`, shows and `CUDA_VISIBLE_DEVICES` allows."""
    from llmperf_nvidia.probe import probe

    return probe()


@hookimpl
def llmperf_catalogue() -> Iterable[Probe]:
    """Every GPU of the peak table."""
    from llmperf_nvidia.probe import offers_of, table

    return table().catalogue(offers_of)


@hookimpl
def llmperf_peak_flops(device_model: str, dtype: Dtype) -> PeakFlops | None:
    """The datasheet's dense figure for exactly this GPU; None for one that is not in the table."""
    from llmperf_nvidia.probe import table

    return table().peak_flops(device_model, dtype)


@hookimpl
def llmperf_device_rates(device_model: str) -> DeviceRates | None:
    """Assumed rates of this GPU; None without an assumption."""
    from llmperf_nvidia.probe import rate_table

    return rate_table().device_rates(device_model)


@hookimpl
def llmperf_worker_env(plan: Plan) -> Mapping[str, str]:
    """Variables for the visible GPUs, their order, and the growth of torch's allocator."""
    from llmperf_nvidia.probe import worker_env

    return worker_env(plan)


@hookimpl
def llmperf_query_memory(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
    """Memory, utilisation, power, temperature, energy and throttling of each GPU; OSError if one is lost."""
    from llmperf_nvidia.sampler import samples

    return samples(devices)


@hookimpl
def llmperf_rules(kind: str | None) -> Iterable[Rule]:
    """Rules for results of these devices."""
    if kind not in (None, "result"):
        return []
    from llmperf.validation import rules_in

    from llmperf_nvidia import rules

    return rules_in(rules)


@hookimpl
def llmperf_setup_device(plan: Plan, local_rank: int) -> Device:
    """Bind this rank to the GPU of its number among the visible ones, through the framework's own runtime."""
    from llmperf_vendorkit import AcceleratorDevice

    runtime, place = "torch", f"cuda:{local_rank}"
    if plan.worker.needs.runtime == "paddle":  # torch may not be installed
        import paddle

        runtime, place = "paddle", f"gpu:{local_rank}"
        paddle.set_device(place)
        namespace, make_event = paddle.device.cuda, paddle.device.Event
    else:
        import torch

        torch.cuda.set_device(local_rank)
        namespace, make_event = torch.cuda, torch.cuda.Event
    return AcceleratorDevice(
        namespace, local_rank, collective_backend="nccl", places={runtime: place}, make_event=make_event
    )
