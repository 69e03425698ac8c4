"""One rank's GPU through torch.cuda; imported in workers only."""

from __future__ import annotations

import torch
from llmperf import AcceleratorDevice


def cuda_device(local_rank: int) -> AcceleratorDevice:
    """The GPU of a local rank, made the current one."""
    torch.cuda.set_device(local_rank)
    return AcceleratorDevice(
        torch.cuda,
        local_rank,
        collective_backend="nccl",
        places={"torch": f"cuda:{local_rank}", "paddle": f"gpu:{local_rank}"},
        make_event=torch.cuda.Event,
    )
