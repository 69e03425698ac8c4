"""SwiGLU's product (Shazeer 2020, arXiv 2002.05202) as one operation that keeps only its inputs for the backward pass.

Separate operations also keep silu(gate), and write and read it again.
"""

from __future__ import annotations

from typing import Any

import torch
from llmperf_torchkit.compiled import compiled
from torch.nn import functional


def _product(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    wide = gate.float()
    return (wide * torch.sigmoid(wide) * up.float()).to(gate.dtype)


def _gradients(gradient: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    wide, incoming = gate.float(), gradient.float()
    sigmoid = torch.sigmoid(wide)
    silu = wide * sigmoid
    slope = sigmoid + silu * (1.0 - sigmoid)
    return (incoming * up.float() * slope).to(gate.dtype), (incoming * silu).to(up.dtype)


_product_kernel, _gradients_kernel = compiled("swiglu", _product), compiled("swiglu", _gradients)


@torch.library.custom_op("llmperf::swiglu", mutates_args=())
def swiglu(gate: torch.Tensor, up: torch.Tensor, by_compiler: bool) -> torch.Tensor:
    """silu(gate) x up, all of one shape and dtype; one kernel made by the compiler, or two of torch's."""
    if by_compiler and (made := _product_kernel(gate, up)) is not None:
        return made
    return functional.silu(gate).mul_(up)


@swiglu.register_fake
def _(gate: torch.Tensor, up: torch.Tensor, by_compiler: bool) -> torch.Tensor:
    return torch.empty_like(gate)


@torch.library.custom_op("llmperf::swiglu_backward", mutates_args=())
def swiglu_backward(
    gradient: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, by_compiler: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of gate and up."""
    if by_compiler and (made := _gradients_kernel(gradient, gate, up)) is not None:
        return made
    of_up = functional.silu(gate).mul_(gradient)
    return torch.ops.aten.silu_backward(gradient * up, gate), of_up


@swiglu_backward.register_fake
def _(
    gradient: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, by_compiler: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(gate), torch.empty_like(up)


def _keep(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor, bool], output: torch.Tensor) -> None:
    gate, up, ctx.by_compiler = inputs
    ctx.save_for_backward(gate, up)


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
    gate, up = ctx.saved_tensors
    return (*swiglu_backward(gradient.contiguous(), gate, up, ctx.by_compiler), None)


swiglu.register_autograd(_backward, setup_context=_keep)
