"""Functions and whole blocks through `torch.compile`, made when they are first called, and the time that it takes.

A function is one kernel for each set of shapes. A block is compiled by itself, one graph that all blocks of a model
share: the time does not depend on the number of layers, and gradients of a block can be communicated while the next one
computes.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

import torch

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")
FAILED: set[str] = set()
"""Operations whose kernels the compiler could not make in this process."""


def compiled(operation: str, function: Callable[Parameters, Answer]) -> Callable[Parameters, Answer | None]:
    """A function of tensors as one kernel: Inductor makes it with Triton on accelerators, with C++ on CPUs.

    Answers None if that fails, such as without Python's header files, and for this operation from then on.
    """
    made: Callable[Parameters, Answer] | None = None

    def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Answer | None:
        nonlocal made
        if operation in FAILED:
            return None
        try:
            if made is None:
                made = torch.compile(function, fullgraph=True, dynamic=False)
            return made(*arguments, **named)
        except Exception as error:  # of torch, Triton or a C compiler; a fault of the device fails again without them
            FAILED.add(operation)
            warnings.warn(f"{operation} by torch's own operations: torch.compile failed: {cause(error)}", stacklevel=2)
            return None

    return call


def cause(error: BaseException) -> str:
    """The first line of a compiler's message."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


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
