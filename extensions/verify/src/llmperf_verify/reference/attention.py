"""The attention of a layer: its projections, positions, and causal attention of each head in blocks of queries.

Positions are rotary angles (arXiv:2104.09864) or ALiBi's slopes (Press et al., ICLR 2022).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from llmperf import rotary_frequencies
from llmperf.types import Model
from numpy.typing import NDArray

from llmperf_verify.reference.weights import Array, Weights, product, rms_normed

MOST_QUERIES = 256
"""Queries of a block."""
BLOCK_SCORES = 2**21
"""Scores in memory at once, for each thread."""
FEWEST_THREADED = 512
"""Tokens of a sequence from which heads are shared among threads: less work would not be worth it."""

Heads = Callable[[int, int], tuple[Array, Array, Array]]
"""Query, key and value [seq_len, width] of a sequence and a query head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """Cosines and sines of all positions of a sequence, [seq_len, rotated width / 2]."""

    cosines: Any
    sines: Any
    neighbours: bool
    """A rotation pairs neighbouring channels, not those of both halves."""

    def turned(self, states: Any) -> Any:
        """The first channels of [seq_len, width] turned, as many as there are angles, neighbours put into halves."""
        half = self.cosines.shape[1]
        first, rest = states[:, : 2 * half], states[:, 2 * half :]
        if self.neighbours:
            low, high = first[:, 0::2], first[:, 1::2]
        else:
            low, high = first[:, :half], first[:, half:]
        turned = [low * self.cosines - high * self.sines, high * self.cosines + low * self.sines]
        return np.concatenate([*turned, rest], axis=1)


def rotation(model: Model, seq_len: int, dtype: Any, *, windowed: bool) -> Rotation | None:
    """The rotation of a layer with a window or without, in float32; None for a model without rotary positions."""
    if model.position_encoding != "rope":
        return None
    frequencies, scale = rotary_frequencies(model, windowed)
    angles = np.arange(seq_len, dtype=np.float32)[:, None] * frequencies
    cosines, sines = (function(angles.astype(dtype)) * dtype(scale) for function in (np.cos, np.sin))
    return Rotation(cosines=cosines, sines=sines, neighbours=model.rotated_pairs == "neighbours")


def alibi_slopes(model: Model) -> NDArray[np.float32] | None:
    """One slope for each head, 2^(-8/n), 2^(-16/n), ... with n the power of two at or below the number of heads; other
    heads take every second slope of 2n. None for a model without ALiBi."""
    if model.position_encoding != "alibi":
        return None
    heads = model.attention_heads
    below = 2 ** math.floor(math.log2(heads))
    eighths = [8 * (head + 1) for head in range(below)] + [4 * (2 * head + 1) for head in range(heads - below)]
    slopes: NDArray[np.float32] = np.exp2(-np.array(eighths, dtype=np.float32) / np.float32(below))
    return slopes


def score_scale(model: Model) -> float:
    """Factor of the scores: 1 / sqrt(width), and yarn's factor in latent attention, (0.1 c ln(f) + 1)^2."""
    scale = (model.query_scale_width or model.query_width) ** -0.5
    scaling = model.rope_scaling
    if scaling is None or not scaling.score_scale or scaling.factor <= 1:
        return float(scale)
    return float(scale * (0.1 * scaling.score_scale * math.log(scaling.factor) + 1.0) ** 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Inputs of attention beside its weights: the same in all layers of one span."""

    rotation: Rotation | None
    window: int | None
    slopes: Any
    """ALiBi's, by head; None without."""
    scale: float
    """Factor of the scores."""


def positions_of(model: Model, seq_len: int, dtype: Any, *, windowed: bool) -> Positions:
    """Positions of layers with a window, or of those without."""
    return Positions(
        rotation=rotation(model, seq_len, dtype, windowed=windowed),
        window=model.window if windowed else None,
        slopes=alibi_slopes(model),
        scale=score_scale(model),
    )


def attention(weights: Weights, model: Model, layer: str, states: Array, seq_len: int, positions: Positions) -> Array:
    """The attention of a layer of whole sequences [sequences x seq_len, hidden] to the same."""
    name = f"{layer}.self_attn"
    make_heads = _grouped_heads if model.latent is None else _latent_heads
    heads = make_heads(weights, model, name, states, seq_len, positions)
    width = model.value_width
    attended = np.empty((len(states), model.attention_heads * width), dtype=states.dtype)
    sinks = weights.vector(f"{name}.sinks", model.attention_heads) if model.sinks else None

    def fill(place: tuple[int, int]) -> None:
        sequence, head = place
        query, key, value = heads(sequence, head)
        slope = None if positions.slopes is None else float(positions.slopes[head])
        sink = (0.0 if sinks is None else float(sinks[head])) if model.sinks else None
        rows = slice(sequence * seq_len, (sequence + 1) * seq_len)
        attended[rows, head * width : (head + 1) * width] = attend(
            query * query.dtype.type(positions.scale), key, value, window=positions.window, slope=slope, sink=sink
        )

    places = [(sequence, head) for sequence in range(len(states) // seq_len) for head in range(model.attention_heads)]
    if seq_len < FEWEST_THREADED:
        for place in places:
            fill(place)
    else:
        with ThreadPoolExecutor(max(1, min(os.cpu_count() or 1, len(places)))) as pool:
            list(pool.map(fill, places))
    return product(weights, attended, f"{name}.o_proj", model.hidden_size, bias="o" in model.attention_bias)


def _grouped_heads(
    weights: Weights, model: Model, name: str, states: Array, seq_len: int, positions: Positions
) -> Heads:
    """Queries, keys and values of projections of the states; several queries may share a key."""
    width, group = model.query_width, model.attention_heads // model.kv_heads
    counts = {"q": model.attention_heads, "k": model.kv_heads, "v": model.kv_heads}
    if model.family == "baichuan":  # one matrix of all three
        packed = product(weights, states, f"{name}.W_pack", sum(counts.values()) * width)
        ends = np.cumsum([count * width for count in counts.values()])[:-1]
        parts = dict(zip(counts, np.split(packed, ends, axis=1), strict=True))
    else:
        parts = {
            part: product(weights, states, f"{name}.{part}_proj", count * width, bias=part in model.attention_bias)
            for part, count in counts.items()
        }

    def taken(part: str, sequence: int, head: int) -> Array:
        chosen = parts[part][sequence * seq_len : (sequence + 1) * seq_len, head * width : (head + 1) * width]
        if part == "v":
            return chosen
        if model.qk_norm == "head":
            chosen = rms_normed(weights, chosen, f"{name}.{part}_norm", model.norm_eps, offset=model.norm_offset)
        return chosen if positions.rotation is None else positions.rotation.turned(chosen)

    def heads(sequence: int, head: int) -> tuple[Array, Array, Array]:
        return taken("q", sequence, head), taken("k", sequence, head // group), taken("v", sequence, head // group)

    return heads


def _latent_heads(
    weights: Weights, model: Model, name: str, states: Array, seq_len: int, positions: Positions
) -> Heads:
    """Keys and values from a vector of low rank, queries too where the model has a rank for them (arXiv:2405.04434)."""
    latent = model.latent
    assert latent is not None
    eps, offset, width, plain = model.norm_eps, model.norm_offset, model.query_width, latent.nope_width
    queries, of_queries = states, "q_proj"
    if latent.q_rank is not None:
        queries = product(weights, states, f"{name}.q_a_proj", latent.q_rank)
        queries = rms_normed(weights, queries, f"{name}.q_a_layernorm", eps, offset=offset)
        of_queries = "q_b_proj"
    queries = product(weights, queries, f"{name}.{of_queries}", model.attention_heads * width)
    compressed = product(weights, states, f"{name}.kv_a_proj_with_mqa", latent.kv_rank + latent.rope_width)
    shared = compressed[:, latent.kv_rank :]
    low = rms_normed(weights, compressed[:, : latent.kv_rank], f"{name}.kv_a_layernorm", eps, offset=offset)
    each = plain + latent.value_width
    pairs = product(weights, low, f"{name}.kv_b_proj", model.attention_heads * each)

    def turned(part: Array) -> Array:
        return part if positions.rotation is None else positions.rotation.turned(part)

    def heads(sequence: int, head: int) -> tuple[Array, Array, Array]:
        rows = slice(sequence * seq_len, (sequence + 1) * seq_len)
        query = queries[rows, head * width : (head + 1) * width]
        pair = pairs[rows, head * each : (head + 1) * each]
        query = np.concatenate([query[:, :plain], turned(query[:, plain:])], axis=1)
        return query, np.concatenate([pair[:, :plain], turned(shared[rows])], axis=1), pair[:, plain:]

    return heads


def attend(
    query: Array, key: Array, value: Array, *, window: int | None, slope: float | None, sink: float | None
) -> Array:
    """Causal attention of one head: scaled queries and keys [seq_len, width], values [seq_len, value width] to theirs.

    A query sees itself and the keys before it, the nearest `window` of them. `slope` x distance is taken from the
    scores (ALiBi); `sink` is a score that takes a share and adds nothing.
    """
    seq_len, kind = len(query), query.dtype.type
    result = np.empty((seq_len, value.shape[1]), dtype=query.dtype)
    each = max(1, min(MOST_QUERIES, BLOCK_SCORES // min(seq_len, window or seq_len)))
    for start in range(0, seq_len, each):
        stop = min(start + each, seq_len)
        first = 0 if window is None else max(0, start - window + 1)
        scores = query[start:stop] @ key[first:stop].T
        rows, edge = np.arange(stop - start)[:, None], np.arange(stop - start)[None, :]
        scores[:, start - first :][edge > rows] = -np.inf
        if window is not None:
            near = scores[:, : stop - start]
            near[start + rows - (first + edge[:, : near.shape[1]]) >= window] = -np.inf
        if slope is not None:
            scores -= kind(slope) * (np.arange(start, stop, dtype=kind)[:, None] - np.arange(first, stop, dtype=kind))
        highest = scores.max(axis=1, keepdims=True)
        if sink is not None:
            highest = np.maximum(highest, kind(sink))
        np.exp(np.subtract(scores, highest, out=scores), out=scores)
        total = scores.sum(axis=1, keepdims=True)
        if sink is not None:
            total += np.exp(kind(sink) - highest)
        result[start:stop] = (scores @ value[first:stop]) / total
    return result
