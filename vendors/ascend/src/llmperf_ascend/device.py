"""A rank's NPU through torch_npu; imported in workers only."""

from __future__ import annotations

from typing import Any

from llmperf.errors import PluginError
from llmperf_vendorkit import AcceleratorDevice


def npu_device(local_rank: int) -> AcceleratorDevice:
    """The NPU of a local rank, made the current one; PluginError where torch_npu cannot be imported."""
    import torch

    try:
        import torch_npu  # noqa: F401
    except (ImportError, OSError) as error:
        raise PluginError(f"torch_npu, through which torch uses NPUs, cannot be imported: {error}") from None
    npu: Any = torch.npu  # added by torch_npu
    npu.set_device(local_rank)
    return AcceleratorDevice(
        npu, local_rank, collective_backend="hccl", places={"torch": f"npu:{local_rank}"}, make_event=npu.Event
    )
