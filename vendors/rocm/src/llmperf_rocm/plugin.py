"""Hook implementations for AMD GPUs under ROCm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Device, DeviceRates, DeviceSample, Dtype, Facts, PeakFlops, Plan, Probe


@hookimpl
def llmperf_facts() -> Facts:
    """The variables of ROCm and RCCL, which reads NCCL's too, and the names of the vendor."""
    from llmperf.types import Facts

    return Facts(
        environment_names=(
            "CUDA_VISIBLE_DEVICES",
            "ROCR_VISIBLE_DEVICES",
            "PYTORCH_CUDA_ALLOC_CONF",
            "PYTORCH_HIP_ALLOC_CONF",
        ),
        environment_prefixes=("HIP_", "HSA_", "NCCL_", "RCCL_"),
        device_aliases={"rocm": (r"(?<![a-z])(?:amd\s*)?(?:instinct|radeon|mi\s?\d{2,3}[a-z]?(?![a-z\d]))",)},
    )


@hookimpl
def llmperf_probe() -> Probe:
    """The GPUs of one model that AMD's library or tools show and the visibility variables allow."""
    from llmperf_rocm.gpus import ROCM

    return ROCM.probe()


@hookimpl
def llmperf_catalogue() -> Iterable[Probe]:
    """Every GPU of the peak table."""
    from llmperf_rocm.gpus import ROCM

    return ROCM.catalogue()


@hookimpl
def llmperf_peak_flops(device_model: str, dtype: Dtype) -> PeakFlops | None:
    """AMD's dense figure for exactly this GPU; None for one that is not in the table."""
    from llmperf_rocm.gpus import ROCM

    return ROCM.peak_flops(device_model, dtype)


@hookimpl
def llmperf_device_rates(device_model: str) -> DeviceRates | None:
    """Assumed rates of this GPU; None without an assumption."""
    from llmperf_rocm.gpus import ROCM

    return ROCM.device_rates(device_model)


@hookimpl
def llmperf_worker_env(plan: Plan) -> Mapping[str, str]:
    """Variables for the visible GPUs."""
    from llmperf_rocm.gpus import worker_env

    return worker_env(plan)


@hookimpl
def llmperf_query_memory(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
    """Memory, utilisation, power, temperature and energy of each GPU; None where no interface answers."""
    from llmperf_rocm.gpus import ROCM

    return ROCM.samples(devices)


@hookimpl
def llmperf_setup_device(plan: Plan, local_rank: int) -> Device:
    """Bind this rank to its GPU through torch's ROCm build, which calls it a CUDA device; PluginError with another."""
    import torch
    from llmperf.errors import PluginError
    from llmperf_vendorkit import AcceleratorDevice

    if torch.version.hip is None:
        raise PluginError(f"torch {torch.__version__} is not built for ROCm; install the build for your ROCm version")
    torch.cuda.set_device(local_rank)
    places = {"torch": f"cuda:{local_rank}"}
    return AcceleratorDevice(
        torch.cuda, local_rank, collective_backend="nccl", places=places, make_event=torch.cuda.Event
    )
