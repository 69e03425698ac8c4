"""One rank's NPU through torch_npu; imported in workers only."""

from __future__ import annotations

from llmperf import AcceleratorDevice
from llmperf.errors import PluginError


def npu_device(local_rank: int) -> AcceleratorDevice:
    """The NPU of a local rank, made the current one; PluginError where torch_npu cannot be imported.

    torch_npu gives torch the namespace `torch.npu` and the collective backend `hccl`.
    """
    import torch

    try:
        import torch_npu  # noqa: F401
    except (ImportError, OSError) as error:
        raise PluginError(f"torch_npu cannot be imported, without which torch knows no NPU: {error}") from None
    torch.npu.set_device(local_rank)
    return AcceleratorDevice(
        torch.npu,
        local_rank,
        collective_backend="hccl",
        places={"torch": f"npu:{local_rank}"},
        make_event=torch.npu.Event,
    )
