"""Choice of fused operations: which, by which kernels, and their names in the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from llmperf_pytorch.kernel_limits import has_grouped_products, host_compiler
from llmperf_pytorch.kernels.compiled import FAILED
from llmperf_pytorch.kernels.grouped import grouped_kernel
from llmperf_pytorch.kernels.rope import rope, rotate
from llmperf_pytorch.norms import rms_norm, separate_rms_norm

if TYPE_CHECKING:
    from llmperf.types import Model, Plan

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
            names["experts"] = grouped_kernel(device_type, one_kernel=self.groups_products)
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
