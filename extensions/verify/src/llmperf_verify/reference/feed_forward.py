"""Feed-forward layers, dense and mixtures of experts; one expert is in memory at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from llmperf import routing_table
from llmperf.types import Contract, Model
from llmperf.types.models import Mixture
from numpy.typing import NDArray

from llmperf_verify.reference.weights import Array, Weights, product, row_blocks

CLAMP, SIGMOID_SLOPE = 7.0, 1.702
"""Constants of GPT-OSS (`swiglu_limit` and `alpha` of its published code, arXiv:2508.10925)."""
SMALLEST_SUM = 1e-20
"""Added to the sum of scores before they are divided by it (DeepSeek-V3's published code)."""
COUNTED_TOGETHER = 2
"""Experts whose sigmoid scores make that of their group (DeepSeek-V3, arXiv:2412.19437, section 2.1.2)."""


def feed_forward(weights: Weights, model: Model, name: str, states: Array, inner: int, *, bias: bool) -> Array:
    """A gated layer with projections `name`.gate_proj and so on, [tokens, hidden] to the same."""
    width = states.shape[1]
    activated = np.empty((len(states), inner), dtype=states.dtype)
    biases = [weights.vector(f"{name}.{part}_proj.bias", inner) if bias else None for part in ("gate", "up")]
    for start, stop in row_blocks(inner, width, len(states)):
        parts = []
        for part, added in zip(("gate", "up"), biases, strict=True):
            rows = weights.rows(f"{name}.{part}_proj.weight", (inner, width), start, stop)
            parts.append(states @ rows.T if added is None else states @ rows.T + added[start:stop])
        activated[:, start:stop] = activation(model, *parts)
    return product(weights, activated, f"{name}.down_proj", width, bias=bias)


def activation(model: Model, gate: Array, up: Array) -> Array:
    """Activation of the outputs of gate and up projection, by `Model.activation`."""
    kind = gate.dtype.type
    if model.activation == "geglu":
        inner = kind(np.sqrt(2 / np.pi)) * (gate + kind(0.044715) * gate * gate * gate)
        return kind(0.5) * gate * (1 + np.tanh(inner)) * up
    if model.activation == "swiglu":
        return gate * _sigmoid(gate) * up
    gate, up = np.minimum(gate, kind(CLAMP)), np.clip(up, kind(-CLAMP), kind(CLAMP))
    return (up + 1) * gate * _sigmoid(kind(SIGMOID_SLOPE) * gate)


def _sigmoid(values: Array) -> Array:
    with np.errstate(over="ignore"):  # 1 / (1 + inf) is 0, as it should be
        return 1 / (1 + np.exp(-values))


def mixture_layer(
    weights: Weights, model: Model, contract: Contract, layer: int, states: Array, places: NDArray[np.int64]
) -> Array:
    """Routed and shared experts of tokens [tokens, hidden], which are at `places` [tokens] of their sequences."""
    mixture = model.mixture
    assert mixture is not None
    name = f"model.layers.{layer}.mlp"
    products = product(weights, states, f"{name}.router", mixture.experts, bias=mixture.router_bias)
    forced = None
    if contract.routing != "learned":
        table = routing_table(contract.seed, model, layer, contract.routing, contract.routing_skew)
        forced = table[places % len(table)]
    shares, experts = route(mixture, products, forced)
    result = np.zeros_like(states)
    for expert in np.unique(experts):
        tokens, column = np.nonzero(experts == expert)
        inner, bias = mixture.expert_width, mixture.expert_bias
        rows = feed_forward(weights, model, f"{name}.experts.{expert}", states[tokens], inner, bias=bias)
        result[tokens] += shares[tokens, column, None] * rows
    if width := shared_width(model):
        shared = feed_forward(weights, model, f"{name}.shared_expert", states, width, bias=model.feed_forward_bias)
        if mixture.shared_gate:
            shared *= _sigmoid(product(weights, states, f"{name}.shared_expert_gate", 1))
        result += shared
    return result


def route(mixture: Mixture, products: Array, forced: NDArray[np.int64] | None) -> tuple[Array, NDArray[np.int64]]:
    """Weights and indexes of the experts of each token, both [tokens, top_k], by the router's products [tokens,
    experts]. `forced` takes the place of the experts with the highest scores."""
    if mixture.router_score == "sigmoid":
        scores = _sigmoid(products)
    else:
        scores = np.exp(products - products.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
    experts = _best(mixture, scores) if forced is None else forced
    shares = np.take_along_axis(scores, experts, axis=1)
    if mixture.normalized_scores:
        shares = shares / (shares.sum(axis=1, keepdims=True) + shares.dtype.type(SMALLEST_SUM))
    return shares * shares.dtype.type(mixture.score_scale), experts


def _best(mixture: Mixture, scores: Array) -> NDArray[np.int64]:
    """The experts with the highest scores, in the best groups where there are groups; the first of equal ones."""
    if mixture.groups > mixture.top_groups:
        grouped = scores.reshape(len(scores), mixture.groups, -1)
        together = COUNTED_TOGETHER if mixture.router_score == "sigmoid" else 1
        of_group = np.sort(grouped, axis=2)[:, :, -together:].sum(axis=2)
        allowed = np.zeros(of_group.shape, dtype=bool)
        np.put_along_axis(allowed, _highest(of_group, mixture.top_groups), values=True, axis=1)
        scores = np.where(allowed[:, :, None], grouped, -1.0).reshape(scores.shape)  # scores are between 0 and 1
    return _highest(scores, mixture.top_k)


def _highest(values: Any, count: int) -> NDArray[np.int64]:
    indexes: NDArray[np.int64] = np.argsort(-values, axis=1, kind="stable")[:, :count]
    return indexes


def shared_width(model: Model) -> int:
    """Inner width of all shared experts of a layer together; 0 without any."""
    mixture = model.mixture
    if mixture is None or not mixture.shared_experts:
        return 0
    return mixture.shared_width or mixture.shared_experts * mixture.expert_width
