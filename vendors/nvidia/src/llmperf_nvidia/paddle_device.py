"""One rank's GPU through Paddle; imported in workers of a Paddle framework only, where torch may not be installed."""

from __future__ import annotations

import paddle
from llmperf import AcceleratorDevice


def paddle_device(local_rank: int) -> AcceleratorDevice:
    """The GPU of a local rank, made Paddle's current one."""
    place = f"gpu:{local_rank}"
    paddle.set_device(place)
    return AcceleratorDevice(
        paddle.device.cuda,
        local_rank,
        collective_backend="nccl",
        places={"paddle": place},
        make_event=paddle.device.Event,
    )
