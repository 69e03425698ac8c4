"""A mixture of experts: which experts a token takes, their products, and how many tokens each has got.

Where one kernel computes the products of all experts, no operation depends on how many tokens an expert gets, and the
host never waits. On CPUs and NVIDIA GPUs below compute capability 9.0 the host reads these numbers in every layer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import llmperf
import torch
from llmperf.types import Contract, Model
from llmperf.types.models import Mixture
from llmperf_torchkit.precision import compute_dtype
from torch import nn
from torch.nn import functional

from llmperf_pytorch.kernels.choice import Kernels, grouped_product

GatedActivation = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""The activation of what the gate and the up projection give, of one shape."""
CLAMP, SIGMOID_SLOPE = 7.0, 1.702
"""Constants of GPT-OSS (`swiglu_limit` and `alpha` in its published code)."""


class Projection(nn.Linear):
    """A linear layer without torch's initial weights, which are slow to draw and replaced."""

    def reset_parameters(self) -> None:
        """Leave the memory as it is."""


class FeedForward(nn.Module):
    """A gated feed-forward layer, dense or the part of a mixture that all tokens pass."""

    def __init__(self, inner: int, facts: Model, kernels: Kernels) -> None:
        super().__init__()
        width, bias = facts.hidden_size, facts.feed_forward_bias
        self.gate_proj = Projection(width, inner, bias=bias)
        self.up_proj = Projection(width, inner, bias=bias)
        self.down_proj = Projection(inner, width, bias=bias)
        self._activate = gated_activation(facts, kernels)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[..., width] to the same."""
        output: torch.Tensor = self.down_proj(self._activate(self.gate_proj(hidden), self.up_proj(hidden)))
        return output


def gated_activation(facts: Model, kernels: Kernels) -> GatedActivation:
    """The function of `Model.activation`."""
    if facts.activation == "geglu":
        return _geglu
    return kernels.swiglu if facts.activation == "swiglu" else _clamped_swiglu


def _geglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return functional.gelu(gate, approximate="tanh") * up


def _clamped_swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """(up + 1) x gate x sigmoid(1.702 gate), both clamped (GPT-OSS, arXiv:2508.10925)."""
    gate, up = gate.clamp(max=CLAMP), up.clamp(-CLAMP, CLAMP)
    return (up + 1) * gate * torch.sigmoid(SIGMOID_SLOPE * gate)


SMALLEST_SUM = 1e-20
"""Added to the sum of sigmoid scores before they are divided by it (DeepSeek-V3's published code)."""
COUNTED_TOGETHER = 2
"""Experts whose scores make that of their group (DeepSeek-V3, arXiv:2412.19437, section 2.1.2)."""


class Router(Projection):
    """Scores of experts, and those that each token takes."""

    def __init__(self, width: int, mixture: Mixture) -> None:
        super().__init__(width, mixture.experts, bias=mixture.router_bias)
        self._mixture = mixture

    def choose(self, hidden: torch.Tensor, forced: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights (float32) and indexes of the experts of tokens [tokens, width], both [tokens, top_k].

        `forced` [tokens, top_k] takes the place of the experts with the highest scores.
        """
        mixture = self._mixture
        products = self(hidden).float()
        scores = products.sigmoid() if mixture.router_score == "sigmoid" else products.softmax(-1)
        experts = self._best(scores) if forced is None else forced
        weights = scores.gather(-1, experts)
        if mixture.normalized_scores:
            weights = weights / (weights.sum(-1, keepdim=True) + SMALLEST_SUM)
        return weights * mixture.score_scale, experts

    def _best(self, scores: torch.Tensor) -> torch.Tensor:
        """The experts with the highest scores, in the best groups where there are groups."""
        mixture = self._mixture
        scores = scores.detach()
        if mixture.groups > mixture.top_groups:
            grouped = scores.unflatten(-1, (mixture.groups, -1))
            together = COUNTED_TOGETHER if mixture.router_score == "sigmoid" else 1
            best = grouped.topk(together, -1).values.sum(-1).topk(mixture.top_groups, -1).indices
            allowed = torch.zeros_like(grouped[..., 0]).scatter(-1, best, 1.0)
            scores = (grouped + (allowed.unsqueeze(-1) - 1.0) * 2.0).flatten(-2)  # scores are between 0 and 1
        return scores.topk(mixture.top_k, -1).indices


class Experts(nn.Module):
    """The gated feed-forward layers of all experts, whose weights are one tensor for each projection.

    Expert e of `gate_proj` [experts, expert_width, width] has the initial weights of the name `e.gate_proj.weight`.
    """

    def __init__(self, facts: Model, mixture: Mixture, kernels: Kernels) -> None:
        super().__init__()
        experts, inner, width = mixture.experts, mixture.expert_width, facts.hidden_size
        self.gate_proj = nn.Parameter(torch.empty(experts, inner, width))
        self.up_proj = nn.Parameter(torch.empty(experts, inner, width))
        self.down_proj = nn.Parameter(torch.empty(experts, width, inner))
        biased = mixture.expert_bias
        self.gate_proj_bias = nn.Parameter(torch.zeros(experts, inner)) if biased else None
        self.up_proj_bias = nn.Parameter(torch.zeros(experts, inner)) if biased else None
        self.down_proj_bias = nn.Parameter(torch.zeros(experts, width)) if biased else None
        self._activate, self._one_kernel = gated_activation(facts, kernels), kernels.groups_products

    def forward(self, rows: torch.Tensor, experts: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Rows [rows, width] sorted by `experts` [rows], of which each has `counts` [experts], to the same shape."""
        product = partial(grouped_product, ends=counts.cumsum(0), one_kernel=self._one_kernel)
        gate = _biased(product(rows, self.gate_proj), self.gate_proj_bias, experts)
        up = _biased(product(rows, self.up_proj), self.up_proj_bias, experts)
        return _biased(product(self._activate(gate, up), self.down_proj), self.down_proj_bias, experts)


def _biased(rows: torch.Tensor, bias: torch.Tensor | None, experts: torch.Tensor) -> torch.Tensor:
    return rows if bias is None else rows + bias.to(rows.dtype).index_select(0, experts)


class MixtureLayer(nn.Module):
    """Router, routed experts and shared experts of one layer."""

    table: torch.Tensor
    load: torch.Tensor

    def __init__(self, place: int, facts: Model, kernels: Kernels, contract: Contract | None) -> None:
        super().__init__()
        mixture = facts.mixture
        assert mixture is not None
        self._place, self._facts = place, facts
        self._contract = None if contract is None or contract.routing == "learned" else contract
        self._experts, self._top_k = mixture.experts, mixture.top_k
        self.router = Router(facts.hidden_size, mixture)
        self.experts = Experts(facts, mixture, kernels)
        width = mixture.shared_width or mixture.shared_experts * mixture.expert_width
        self.shared_expert = FeedForward(width, facts, kernels) if mixture.shared_experts else None
        self.shared_expert_gate = Projection(facts.hidden_size, 1, bias=False) if mixture.shared_gate else None
        self._latest: torch.Tensor | None = None
        self.set_buffers()

    def set_buffers(self) -> None:
        """Make the load, and the table of experts where the contract has one, on the default device."""
        device, contract = torch.get_default_device(), self._contract
        self.register_buffer("load", torch.zeros(self._experts, dtype=torch.int64, device=device), persistent=False)
        if contract is not None:
            table = llmperf.routing_table(
                contract.seed, self._facts, self._place, contract.routing, contract.routing_skew
            )
            self.register_buffer("table", torch.from_numpy(table).to(device), persistent=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[batch, seq_len, width] to the same."""
        tokens = hidden.flatten(0, 1)
        forced = None
        if self._contract is not None:  # the experts of each token [tokens, top_k] are the contract's
            places = torch.arange(hidden.shape[1], device=hidden.device) % self.table.shape[0]
            forced = self.table.index_select(0, places).repeat(hidden.shape[0], 1)
        weights, experts = self.router.choose(tokens, forced)
        with torch.no_grad():
            flat = experts.flatten()
            order = flat.argsort(stable=True)
            back = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=order.device))
            counts = torch.zeros_like(self.load).scatter_add_(0, flat, torch.ones_like(flat))
            self._latest = counts
        copies = tokens.to(compute_dtype(tokens)).unsqueeze(1).expand(-1, self._top_k, -1).flatten(0, 1)
        rows = Reordered.apply(copies, order, back)
        results = Reordered.apply(self.experts(rows, flat.index_select(0, order), counts), back, order)
        routed = (results.unflatten(0, (-1, self._top_k)) * weights.to(results.dtype).unsqueeze(-1)).sum(1)
        if self.shared_expert is None:
            return routed.view(hidden.shape)
        shared: torch.Tensor = self.shared_expert(hidden)
        if self.shared_expert_gate is not None:
            shared = shared * torch.sigmoid(self.shared_expert_gate(hidden))
        return routed.view(hidden.shape) + shared

    @torch.no_grad()
    def count(self) -> None:
        """Add the tokens of the latest forward pass to the load; once for each, also where it is repeated."""
        if self._latest is not None:
            self.load += self._latest


class Reordered(torch.autograd.Function):
    """Rows in another order, and their gradients in the order before: neither adds up, unlike a general index."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, order: torch.Tensor, back: torch.Tensor) -> torch.Tensor:
        """`rows[order]`; `back` is the inverse of `order`."""
        ctx.save_for_backward(back)
        return rows.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """`gradient[back]`."""
        (back,) = ctx.saved_tensors
        return gradient.index_select(0, back), None, None


def expert_tokens(model: nn.Module) -> list[list[int]] | None:
    """Tokens of each expert for each mixture of a model, in order. Waits for the device."""
    loads = [module.load for module in model.modules() if isinstance(module, MixtureLayer)]
    return torch.stack(loads).tolist() if loads else None
