"""The same function through `torch.compile`, made once for each set of shapes, when it is first called."""

from __future__ import annotations

import warnings
from collections.abc import Callable
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
