"""A rank's GPU through torch's ROCm build, which calls it a CUDA device; imported in workers only."""

from __future__ import annotations

import torch
from llmperf.errors import PluginError
from llmperf_vendorkit import AcceleratorDevice


def rocm_device(local_rank: int) -> AcceleratorDevice:
    """The GPU of a local rank, made the current one; PluginError where torch is not built for ROCm."""
    if torch.version.hip is None:
        raise PluginError(f"torch {torch.__version__} is not built for ROCm; install the build for your ROCm version")
    torch.cuda.set_device(local_rank)
    return AcceleratorDevice(
        torch.cuda,
        local_rank,
        collective_backend="nccl",
        places={"torch": f"cuda:{local_rank}"},
        make_event=torch.cuda.Event,
    )
