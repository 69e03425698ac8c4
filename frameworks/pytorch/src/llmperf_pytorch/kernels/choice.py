"""Choice of fused operations: which, by which kernels, and their names in the result; norms and products of experts.

RMSNorm (Zhang and Sennrich 2019, arXiv 1910.07467) is one operation or separate ones. CUDA has a fused kernel for the
one operation. It computes in float32 and rounds once, so that in 16 bits it is at least as exact as separate ones.
Rotary positions (RoFormer, arXiv 2104.09864), halves rotated as in LLaMA checkpoints, are separate operations or one
that keeps only the angles for the backward pass. Products of experts take rows in the order of their experts, each
expert with a matrix of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from llmperf.types import Model, Plan
from llmperf_torchkit.compiled import FAILED, compiled
from llmperf_torchkit.limits import host_compiler
from llmperf_torchkit.precision import compute_dtype, without_autocast
from torch import nn
from torch._guards import detect_fake_mode
from torch.nn import functional

from llmperf_pytorch.kernel_limits import has_grouped_products


def rotate(states: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Turn each pair of channels of [batch, heads, seq_len, width] by its position's angle."""
    low, high = states.chunk(2, dim=-1)
    return states * cosines + torch.cat([-high, low], dim=-1) * sines


def _turned(states: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor, back: bool) -> torch.Tensor:
    wide, cosines, sines = states.float(), cosines.float(), sines.float()
    low, high = wide.chunk(2, dim=-1)
    other = torch.cat([high, -low] if back else [-high, low], dim=-1)
    return (wide * cosines + other * sines).to(states.dtype)


_turned_kernel = compiled("rope", _turned)


@torch.library.custom_op("llmperf::rope", mutates_args=())
def rope(
    states: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor, back: bool, by_compiler: bool
) -> torch.Tensor:
    """Turn each pair of channels of [batch, heads, seq_len, width] by its position's angle, or back.

    Cosines and sines: [seq_len, width], both halves equal. One kernel made by the compiler, or four of torch's on half
    the channels each, where separate operations are six on all.
    """
    if by_compiler and (made := _turned_kernel(states, cosines, sines, back)) is not None:
        return made
    turned, half, sign = torch.empty_like(states), states.shape[-1] // 2, -1.0 if back else 1.0
    low, high = states[..., :half], states[..., half:]
    cosines, sines = cosines[..., :half], sines[..., :half]
    torch.mul(low, cosines, out=turned[..., :half]).addcmul_(high, sines, value=-sign)
    torch.mul(high, cosines, out=turned[..., half:]).addcmul_(low, sines, value=sign)
    return turned


@rope.register_fake
def _(states: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor, back: bool, by_compiler: bool) -> torch.Tensor:
    return torch.empty_like(states)


def _keep(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor, bool, bool], output: torch.Tensor) -> None:
    _, cosines, sines, ctx.back, ctx.by_compiler = inputs
    ctx.save_for_backward(cosines, sines)


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
    cosines, sines = ctx.saved_tensors
    return rope(gradient, cosines, sines, not ctx.back, ctx.by_compiler), None, None, None, None


rope.register_autograd(_backward, setup_context=_keep)


GROUPED = getattr(functional, "grouped_mm", getattr(torch, "_grouped_mm", None))
"""torch's product of groups, from torch 2.8 on; None in versions without it."""


def grouped_product(
    rows: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor, *, one_kernel: bool = True
) -> torch.Tensor:
    """Rows [rows, in] times the transposed matrices [experts, out, in] of their experts: [rows, out].

    `ends` [experts] are the places after the last row of each expert. One kernel on accelerators that have it. Without
    it, as in old versions of torch, one product for each expert, for which the host reads `ends`.
    """
    dtype = compute_dtype(rows)
    rows, matrices = rows.to(dtype), matrices.to(dtype)
    with without_autocast(rows):
        if one_kernel and GROUPED is not None and rows.device.type != "cpu":
            product: torch.Tensor = GROUPED(rows, matrices.transpose(-2, -1), offs=ends.to(torch.int32))
            return product
        places: torch.Tensor | list[int] = ends[:-1].cpu()  # the host waits for them
        if detect_fake_mode(rows) is not None:  # a trace has no values: equal parts
            places = [rows.shape[0] * (place + 1) // len(ends) for place in range(len(ends) - 1)]
        parts = rows.tensor_split(places)
        return torch.cat([part @ matrix.t() for part, matrix in zip(parts, matrices.unbind(), strict=True)])


def rms_norm(hidden: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Any shape [..., width] to the same shape and dtype; weight [width].

    Autocast would turn 16-bit inputs into float32, which take twice the memory: the kernel computes in float32 anyway.
    """
    with without_autocast(hidden) if hidden.dtype is not torch.float32 else nullcontext():
        return functional.rms_norm(hidden, weight.shape, weight, eps)


def separate_rms_norm(hidden: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """As transformers' LlamaRMSNorm: in float32, whose results the backward pass keeps; rounded, then weighted."""
    exact = hidden.float()
    scaled = exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + eps)
    return weight * scaled.to(hidden.dtype)


class RmsNorm(nn.Module):
    """RMSNorm with a weight of its own; with an offset it multiplies by 1 + its weight."""

    def __init__(self, width: int, eps: float, kernels: Kernels, *, offset: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self._eps, self._kernels, self._offset = eps, kernels, offset

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Any shape [..., width] to the same."""
        return self._kernels.rms_norm(hidden, self.weight, self._eps, offset=self._offset)


def norm_of(facts: Model, width: int, kernels: Kernels) -> RmsNorm:
    """A norm as a model has it."""
    return RmsNorm(width, facts.norm_eps, kernels, offset=facts.norm_offset)


SEPARATE = "separate operations"


@dataclass(frozen=True)
class Kernels:
    """The operations of a model that may be fused."""

    fused: tuple[str, ...] = ()
    """Such as `rms_norm`, `rope`, `swiglu`, `cross_entropy`."""
    by_compiler: bool = False
    """The compiler makes the kernels of `rope` and `swiglu`, otherwise torch's operations compute them."""
    compiles_blocks: bool = False
    """Whole blocks are compiled."""
    groups_products: bool = True
    """The products of all experts are one kernel on the devices."""

    @classmethod
    def of(cls, plan: Plan) -> Kernels:
        """Those of a plan. torch's compiler makes them for devices that have one, if it has a C compiler here."""
        return cls(
            fused=plan.worker.fused_ops,
            by_compiler="compiler" in plan.probe.offers.features and host_compiler(c=True) is not None,
            compiles_blocks=plan.spec.tuning.compile,
            groups_products=has_grouped_products(plan.probe),
        )

    @property
    def cross_entropy(self) -> bool:
        """Output projection and loss are one operation."""
        return "cross_entropy" in self.fused

    def rms_norm(self, hidden: torch.Tensor, weight: torch.Tensor, eps: float, *, offset: bool = False) -> torch.Tensor:
        """RMSNorm of [..., width] with a weight [width], in the dtype of its input: the fused kernel takes no other.

        With an offset it multiplies by 1 + the weight, in float32: in 16 bits the sum would lose most digits of a small
        weight.
        """
        norm = rms_norm if "rms_norm" in self.fused else separate_rms_norm
        if offset:
            return norm(hidden.float(), 1.0 + weight.float(), eps).to(hidden.dtype)
        return norm(hidden, weight.to(hidden.dtype), eps)

    def rotate(self, states: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
        """Turn each pair of channels of [batch, heads, seq_len, width] by its position's angle, [seq_len, width]."""
        if "rope" not in self.fused:
            return rotate(states, cosines, sines)
        return rope(states, cosines, sines, False, self.by_compiler)

    def swiglu(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        """silu(gate) x up."""
        if "swiglu" not in self.fused:
            return functional.silu(gate) * up
        from llmperf_pytorch.kernels.swiglu import swiglu

        return swiglu(gate, up, self.by_compiler)

    def named(self, model: Model, attention: str, optimizer: str, device_type: str) -> Mapping[str, str]:
        """For `Trainer.kernels`."""
        blocks = "torch.compile with its block" if self.compiles_blocks else SEPARATE
        names = {
            "attention": "torch's choice (scaled_dot_product_attention)"
            if attention in ("auto", "sdpa")
            else attention,
            "rms_norm": "torch.nn.functional.rms_norm"
            if "rms_norm" in self.fused and not self.compiles_blocks
            else blocks,
            "rope": f"llmperf::rope by {self._maker('rope')}" if "rope" in self.fused else blocks,
            "swiglu": f"llmperf::swiglu by {self._maker('swiglu')}" if "swiglu" in self.fused else blocks,
            "cross_entropy": "fused with the output projection, in parts" if self.cross_entropy else SEPARATE,
            "optimizer": optimizer,
        }
        if model.mixture is not None:
            one_kernel = self.groups_products and GROUPED is not None and device_type != "cpu"
            names["experts"] = "torch.nn.functional.grouped_mm" if one_kernel else "one product for each expert"
        if model.position_encoding != "rope":
            del names["rope"]
        if model.activation != "swiglu":
            names[model.activation] = blocks
            del names["swiglu"]
        return names

    def _maker(self, operation: str) -> str:
        if not self.by_compiler:
            return "torch operations"
        return "torch operations (torch.compile failed)" if operation in FAILED else "torch.compile"


NONE_FUSED = Kernels()
"""All as separate operations."""
