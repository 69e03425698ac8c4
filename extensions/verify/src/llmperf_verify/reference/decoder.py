"""The losses of sequences at a model's initial weights, layer by layer, and the memory that they take."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from llmperf import routing_table
from llmperf.types import Contract, Model
from llmperf.types.models import Mixture
from numpy.typing import NDArray

from llmperf_verify.reference.attention import BLOCK_SCORES, Positions, attention, positions_of
from llmperf_verify.reference.weights import (
    BLOCK_ELEMENTS,
    FEWEST_ROWS,
    Array,
    DrawnWeights,
    Weights,
    embedded,
    product,
    rms_normed,
    row_blocks,
)

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


MOST_EXPERTS = 4096
"""Most experts of routing tables."""
ENCODINGS = ("rope", "alibi")
"""Position encodings that this pass has."""
INTERPRETER_BYTES = 150 * 2**20
"""Bytes of Python with NumPy, before any array."""


def uncovered(model: Model, contract: Contract) -> str | None:
    """The reason why this pass does not compute the losses of a model and contract, in one line; None if it does."""
    if model.counted is not None:
        return f"model.counted: expected none, since the reference composes models from facts ({model.name})"
    if model.position_encoding not in ENCODINGS:
        return (
            f"model.position_encoding: expected one of {', '.join(ENCODINGS)}, found {model.position_encoding[:40]!r}"
        )
    if model.multi_token_layers:
        return "model.multi_token_layers: expected 0, since their losses are not defined by the training contract"
    if model.position_encoding == "alibi" and (model.sinks or model.window is not None):
        return "model.position_encoding: expected rope with sinks or windows, found 'alibi'"
    experts = 0 if model.mixture is None else model.mixture.experts
    if contract.routing != "learned" and not 0 < experts <= MOST_EXPERTS:
        return f"contract.routing: expected learned with {experts} experts, found {contract.routing}"
    return None


def first_losses(
    model: Model,
    contract: Contract,
    sequences: NDArray[np.int64],
    *,
    dtype: type[np.floating[Any]] = np.float32,
    weights: Weights | None = None,
) -> NDArray[np.float64]:
    """Mean cross entropy of each of `sequences` [sequences, seq_len + 1], in nats per learnt token."""
    losses = token_losses(model, contract, sequences, dtype=dtype, weights=weights)
    means: NDArray[np.float64] = np.nanmean(losses, axis=1)
    return means


def token_losses(
    model: Model,
    contract: Contract,
    sequences: NDArray[np.int64],
    *,
    dtype: type[np.floating[Any]] = np.float32,
    weights: Weights | None = None,
    progress: Callable[[int], None] = lambda layers: None,
) -> NDArray[np.float64]:
    """Cross entropy of each token of `sequences` [sequences, seq_len + 1], in nats; NaN where no label is learnt.

    Negative ids are padding: any input, no label. `weights` are drawn from the contract's seed unless they are given.
    `progress` is called with the number of layers that are done, after each of them.
    """
    weights = weights or DrawnWeights(contract.seed, model.initializer_std, dtype)
    inputs, labels = sequences[:, :-1].clip(min=0), sequences[:, 1:]
    seq_len = inputs.shape[1]
    states = embedded(weights, inputs.reshape(-1), model.vocab_size, model.hidden_size, dtype)
    if model.embedding_scale != 1.0:
        states *= dtype(model.embedding_scale)
    full = positions_of(model, seq_len, dtype, windowed=False)
    windowed = positions_of(model, seq_len, dtype, windowed=True)
    pattern = model.window_pattern or ("window",)
    for layer in range(model.layers):
        sees_all = model.window is None or pattern[layer % len(pattern)] == "full"
        states = _block(weights, model, contract, layer, states, seq_len, full if sees_all else windowed)
        progress(layer + 1)
    states = rms_normed(weights, states, "model.norm", model.norm_eps, offset=model.norm_offset)
    losses = _cross_entropies(weights, model, states, labels.reshape(-1)).reshape(labels.shape)
    return np.where(labels >= 0, losses, np.nan)


def _block(
    weights: Weights, model: Model, contract: Contract, layer: int, states: Array, seq_len: int, positions: Positions
) -> Array:
    """Attention and feed-forward layer around residuals; four norms also norm what is added."""
    name, four = f"model.layers.{layer}", model.norms_per_block == 4

    def normed(part: Array, norm: str) -> Array:
        return rms_normed(weights, part, f"{name}.{norm}_layernorm", model.norm_eps, offset=model.norm_offset)

    change = attention(weights, model, name, normed(states, "input"), seq_len, positions)
    states += normed(change, "post_attention") if four else change
    inputs = normed(states, "pre_feedforward" if four else "post_attention")
    if layer < model.dense_layers:
        inner, bias = model.intermediate_size, model.feed_forward_bias
        change = feed_forward(weights, model, f"{name}.mlp", inputs, inner, bias=bias)
    else:
        places = np.arange(len(inputs)) % seq_len
        change = mixture_layer(weights, model, contract, layer, inputs, places)
    states += normed(change, "post_feedforward") if four else change
    return states


def _cross_entropies(weights: Weights, model: Model, states: Array, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Cross entropies of each token, in nats; logits are computed in blocks of the vocabulary, their sum online."""
    name = "model.embed_tokens.weight" if model.tied_embeddings else "lm_head.weight"
    shape = (model.vocab_size, model.hidden_size)
    highest = np.full(len(states), -np.inf)
    total, of_labels = np.zeros(len(states)), np.zeros(len(states))
    for start, stop in row_blocks(*shape, len(states)):
        rows = weights.rows(name, shape, start, stop)
        if model.normalized_head:  # rows of unit length, as Baichuan 2's NormHead has them (arXiv:2309.10305)
            rows = rows / np.maximum(np.sqrt(np.square(rows).sum(axis=1, keepdims=True)), 1e-12)
        logits = states @ rows.T
        inside = np.flatnonzero((labels >= start) & (labels < stop))
        of_labels[inside] = logits[inside, labels[inside] - start]
        higher = np.maximum(highest, logits.max(axis=1))
        total *= np.exp(highest - higher)
        total += np.exp(logits - higher[:, None].astype(logits.dtype)).sum(axis=1)
        highest = higher
    losses: NDArray[np.float64] = np.log(total) + highest - of_labels
    return losses


def pass_bytes(model: Model, sequences: int, seq_len: int, dtype: type[np.floating[Any]]) -> int:
    """Peak memory of the process: activations of a layer, blocks of weights, scores and logits."""
    tokens = sequences * seq_len
    hidden, heads = model.hidden_size, model.attention_heads
    queries = heads * model.query_width
    keys = model.kv_heads * (model.query_width + model.value_width)
    if (latent := model.latent) is not None:
        keys = heads * (latent.nope_width + latent.value_width) + latent.kv_rank + latent.rope_width
    attending = queries + keys + heads * model.value_width
    inner = model.intermediate_size if model.dense_layers else 0
    routed = 0
    if (mixture := model.mixture) is not None:
        inner = max(inner, mixture.expert_width, shared_width(model))
        routed = 3 * mixture.experts + hidden
    activations = tokens * (4 * hidden + max(attending, inner + routed))
    threads = os.cpu_count() or 1
    blocks = 5 * max(BLOCK_ELEMENTS, FEWEST_ROWS * tokens) + threads * (
        2 * BLOCK_SCORES + 4 * seq_len * model.query_width
    )
    return INTERPRETER_BYTES + (activations + blocks) * np.dtype(dtype).itemsize
