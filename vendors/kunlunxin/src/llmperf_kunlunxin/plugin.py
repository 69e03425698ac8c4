"""Hook implementations for Kunlunxin XPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Device, DeviceRates, DeviceSample, Dtype, Facts, PeakFlops, Plan, Probe


@hookimpl
def llmperf_facts() -> Facts:
    """The variables of the vendor's libraries and of XPyTorch, and the names of the vendor."""
    from llmperf.types import Facts

    return Facts(
        environment_names=("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_ORDER"),
        environment_prefixes=("BKCL_", "NCCL_", "XBLAS_", "XDNN_", "XMLIR_", "XPU_"),
        packages=("torch_xmlir",),
        device_aliases={"kunlunxin": ("昆仑芯", "kunlun")},
    )


@hookimpl
def llmperf_probe() -> Probe:
    """The cards of one model that `xpu_smi` shows and `XPU_VISIBLE_DEVICES` allows."""
    from llmperf_kunlunxin.cards import KUNLUNXIN

    return KUNLUNXIN.probe()


@hookimpl
def llmperf_catalogue() -> Iterable[Probe]:
    """Every card of the peak table."""
    from llmperf_kunlunxin.cards import KUNLUNXIN

    return KUNLUNXIN.catalogue()


@hookimpl
def llmperf_peak_flops(device_model: str, dtype: Dtype) -> PeakFlops | None:
    """The vendor's figure for exactly this card; None where there is none."""
    from llmperf_kunlunxin.cards import KUNLUNXIN

    return KUNLUNXIN.peak_flops(device_model, dtype)


@hookimpl
def llmperf_device_rates(device_model: str) -> DeviceRates | None:
    """Assumed rates of this card; None without an assumption."""
    from llmperf_kunlunxin.cards import KUNLUNXIN

    return KUNLUNXIN.device_rates(device_model)


@hookimpl
def llmperf_worker_env(plan: Plan) -> Mapping[str, str]:
    """The planned cards, what the published case sets, and what the user has set for the vendor's libraries."""
    from llmperf_kunlunxin.cards import worker_env

    return worker_env(plan)


@hookimpl
def llmperf_query_memory(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
    """Memory, utilisation, power and temperature of each card; None where `xpu_smi` shows nothing plausible."""
    from llmperf_kunlunxin.cards import KUNLUNXIN

    return KUNLUNXIN.samples(devices)


@hookimpl
def llmperf_setup_device(plan: Plan, local_rank: int) -> Device:
    """Bind this rank to its card through the framework's runtime: Paddle, or torch with XPyTorch."""
    from llmperf_kunlunxin import device

    if plan.worker.needs.runtime == "paddle":
        return device.paddle_device(local_rank)
    return device.xpytorch_device(plan, local_rank)
