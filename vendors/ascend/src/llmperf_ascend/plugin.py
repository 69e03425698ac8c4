"""Hook implementations for Huawei Ascend NPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Device, DeviceSample, Dtype, Facts, PeakFlops, Plan, Probe


@hookimpl
def llmperf_facts() -> Facts:
    """The variables of CANN and of torch_npu, and the names of the vendor."""
    from llmperf.types import Facts

    return Facts(
        environment_names=("PYTORCH_NPU_ALLOC_CONF", "TASK_QUEUE_ENABLE"),
        environment_prefixes=("ASCEND_", "HCCL_"),
        packages=("torch_npu",),
        device_aliases={"ascend": ("昇腾", "ascend", "huawei", "华为", r"(?<![a-z])atlas\s?\d{3}")},
    )


@hookimpl
def llmperf_probe() -> Probe:
    """The NPUs of one model that `npu-smi` shows and `ASCEND_RT_VISIBLE_DEVICES` allows."""
    from llmperf_ascend.npus import ASCEND

    return ASCEND.probe()


@hookimpl
def llmperf_catalogue() -> Iterable[Probe]:
    """Every NPU of the table."""
    from llmperf_ascend.npus import ASCEND

    return ASCEND.catalogue()


@hookimpl
def llmperf_peak_flops(device_model: str, dtype: Dtype) -> PeakFlops | None:
    """By the table; None for the variants of 910B, of which the vendor publishes no figures by name."""
    from llmperf_ascend.npus import ASCEND

    return ASCEND.peak_flops(device_model, dtype)


@hookimpl
def llmperf_worker_env(plan: Plan) -> Mapping[str, str]:
    """Variables for the visible NPUs and, on several nodes, HCCL's interface."""
    from llmperf import interface_variables

    from llmperf_ascend.npus import ASCEND

    return {**ASCEND.worker_env(plan), **interface_variables(plan, "HCCL_SOCKET_IFNAME")}


@hookimpl
def llmperf_query_memory(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
    """Memory, utilisation, power and temperature of each NPU; None where `npu-smi` gives no answer."""
    from llmperf_ascend.npus import ASCEND

    return ASCEND.samples(devices)


@hookimpl
def llmperf_setup_device(plan: Plan, local_rank: int) -> Device:
    """Bind this rank to the NPU of its number among those that are visible; PluginError without torch_npu."""
    import torch
    from llmperf.errors import PluginError
    from llmperf_vendorkit import AcceleratorDevice

    try:
        import torch_npu  # noqa: F401
    except (ImportError, OSError) as error:
        raise PluginError(f"torch_npu, through which torch uses NPUs, cannot be imported: {error}") from None
    npu: Any = torch.npu  # added by torch_npu
    npu.set_device(local_rank)
    return AcceleratorDevice(
        npu, local_rank, collective_backend="hccl", places={"torch": f"npu:{local_rank}"}, make_event=npu.Event
    )
