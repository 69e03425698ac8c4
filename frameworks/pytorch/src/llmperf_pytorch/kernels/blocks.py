"""Whole blocks through `torch.compile`: one graph that all blocks of a model share, and the time that compiling takes.

Each block is compiled by itself: the time does not depend on the number of layers, and gradients of a block can be
communicated while the next one computes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import torch

from llmperf_pytorch.kernels.compiled import cause


def compile_blocks(blocks: Iterable[torch.nn.Module]) -> None:
    """Compile each block's `forward` when it is first called; hooks around it stay as they are.

    Raises in the first step if a block is not one graph.
    """
    import torch._dynamo

    torch._dynamo.config.optimize_ddp = False  # a block is not divided by the buckets of DistributedDataParallel
    for block in blocks:
        block.forward = compiled_forward(block.forward)


def compiled_forward(forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The same function, compiled when it is first called."""
    compiled: Callable[..., torch.Tensor] = torch.compile(forward, fullgraph=True, dynamic=False)
    return compiled


def compiler_failure(error: BaseException) -> str | None:
    """The first line of the message of torch's compiler, in a forward or backward pass; None for any other error."""
    dynamo = sys.modules.get("torch._dynamo.exc")
    if dynamo is None or not isinstance(error, dynamo.TorchDynamoException):
        return None
    return cause(error)


def compile_seconds() -> float | None:
    """Seconds in which torch has compiled in this process so far, backward passes included; None if it never has."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None or not hasattr(dynamo, "calculate_time_spent"):
        return None
    seconds: float = dynamo.calculate_time_spent().get("total_wall_time", 0.0)
    return seconds or None
