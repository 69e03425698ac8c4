"""A rank's GPU through the framework's own runtime, torch or Paddle; imported in workers only."""

from __future__ import annotations

from llmperf_vendorkit import AcceleratorDevice


def torch_device(local_rank: int) -> AcceleratorDevice:
    """The GPU of a local rank, made torch's current device."""
    import torch

    torch.cuda.set_device(local_rank)
    return AcceleratorDevice(
        torch.cuda,
        local_rank,
        collective_backend="nccl",
        places={"torch": f"cuda:{local_rank}"},
        make_event=torch.cuda.Event,
    )


def paddle_device(local_rank: int) -> AcceleratorDevice:
    """The GPU of a local rank, made Paddle's current device; torch may not be installed."""
    import paddle

    place = f"gpu:{local_rank}"
    paddle.set_device(place)
    return AcceleratorDevice(
        paddle.device.cuda,
        local_rank,
        collective_backend="nccl",
        places={"paddle": place},
        make_event=paddle.device.Event,
    )
