"""peft's adapted projections with fewer passes over their activations; values are those of peft.

peft casts a projection's input to the adapter's float32 and drops out there, though autocast then computes the product
in 16 bits; it scales the adapter's whole output, and adds it in a pass of its own. Here the input stays as it is, the
narrow product (`rank` columns) is scaled, and the kernel of the second product adds it to the projection's output.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from peft.tuners.lora.layer import Linear
from torch.nn import functional


def make_lean(model: torch.nn.Module, *, in_place: bool) -> None:
    """Change the adapted projections of a model that has one plain adapter.

    `in_place` adds to the projection's output itself, which recomputation must not keep then.
    """
    for module in model.modules():
        if type(module) is Linear:
            module.__class__ = LeanLinear
            module.adds_in_place = in_place


class LeanLinear(Linear):
    """A frozen projection with an adapter: x W + (dropout(x) A) (alpha / rank) B."""

    adds_in_place: bool

    def forward(self, x: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
        """[..., inputs] to [..., outputs]."""
        (adapter,) = self.active_adapters
        first, second = self.lora_A[adapter].weight, self.lora_B[adapter].weight
        if self.disable_adapters or self.merged or hasattr(first, "ds_id"):  # ZeRO-3 gathers weights for their modules
            output: torch.Tensor = super().forward(x, *arguments, **named)
            return output
        rows = x.flatten(0, -2)
        base = self.base_layer(rows)
        dropped = self.lora_dropout[adapter](rows).to(base.dtype)
        narrow = functional.linear(dropped, first.to(base.dtype)) * self.scaling[adapter]
        add = base.addmm_ if self.adds_in_place else partial(torch.addmm, base)
        whole: torch.Tensor = add(narrow, second.t().to(base.dtype))
        return whole.view(*x.shape[:-1], -1)
