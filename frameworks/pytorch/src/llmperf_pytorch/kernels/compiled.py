"""The same function through `torch.compile`, made once for each set of shapes, when it is first called."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


def compiled(function: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
    """A function of tensors as one kernel: Inductor makes it with Triton on accelerators, with C++ on CPUs."""
    made: Callable[Parameters, Answer] | None = None

    def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Answer:
        nonlocal made
        if made is None:
            made = torch.compile(function, fullgraph=True, dynamic=False)
        return made(*arguments, **named)

    return call
