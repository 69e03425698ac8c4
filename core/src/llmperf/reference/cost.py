"""What a forward pass costs on this machine, before it is made: time from short measurements, memory from sizes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llmperf.accounting.parameters import count_parameters, shared_width
from llmperf.reference.attention import BLOCK_SCORES, attend
from llmperf.reference.weights import BLOCK_ELEMENTS, FEWEST_ROWS
from llmperf.tokens.draws import initial_normal

if TYPE_CHECKING:
    from llmperf.types import Model

INTERPRETER_BYTES = 150 * 2**20
"""Of Python with NumPy, before any array."""

DATA_VALUES = 8
"""Numbers of a token of the vocabulary, where data are drawn."""

CALL_SECONDS = 1e-5
"""Of one call, roughly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassCost:
    """The work of a forward pass of some sequences of equal length. Whole numbers of any size."""

    flops: int
    """Of products with weights."""
    drawn: int
    """Weights that are drawn."""
    scores: int
    """Of attention, over all heads."""
    calls: int
    """Of functions on small arrays, which take time however little they compute."""
    values: int
    """Numbers in memory at once, at most."""

    def bytes(self, dtype: type[np.floating[Any]]) -> int:
        """Peak memory of the process."""
        return INTERPRETER_BYTES + self.values * np.dtype(dtype).itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRates:
    """What this machine does in a second."""

    flops: float
    drawn: float
    scores: float

    def seconds(self, cost: PassCost) -> float:
        """Estimated time of a pass."""
        work = cost.flops / self.flops + cost.drawn / self.drawn + cost.scores / self.scores
        return work + CALL_SECONDS * cost.calls


def pass_cost(model: Model, sequences: int, seq_len: int) -> PassCost:
    """The cost of so many sequences of `seq_len` tokens."""
    tokens, count, mixture = sequences * seq_len, count_parameters(model), model.mixture
    drawn = count.total - count.input_embedding + min(tokens, model.vocab_size) * model.hidden_size
    calls = model.layers * (30 + 15 * sequences * model.attention_heads)
    if model.tied_embeddings:
        drawn += count.input_embedding
    if mixture is not None:
        chosen = min(mixture.experts, tokens * mixture.top_k)
        calls += (model.layers - model.dense_layers) * 10 * chosen
        drawn -= count.experts // mixture.experts * (mixture.experts - chosen)
    seen = min(seq_len, model.window or seq_len)
    windowed = model.windowed_layers
    each = seq_len * ((model.layers - windowed) * seq_len + windowed * 2 * seen) // 2
    return PassCost(
        flops=2 * tokens * count.multiplied,
        drawn=drawn,
        scores=sequences * model.attention_heads * each,
        calls=calls,
        values=_values(model, tokens, seq_len),
    )


def _values(model: Model, tokens: int, seq_len: int) -> int:
    """Activations of a layer, blocks of weights, scores and logits."""
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
    return activations + blocks


SLOW_HOST = HostRates(flops=5e9, drawn=2e7, scores=2e7)
"""Less than any machine does today: what is quick by these rates needs no measurement."""


def measured_rates(dtype: type[np.floating[Any]]) -> HostRates:
    """Rates of short measurements, about half a second in all; the best of three, since the first one warms up."""
    rows = np.ones((1024, 1024), dtype=dtype)
    head = np.ones((1024, 64), dtype=dtype)
    elements = 2**22
    return HostRates(
        flops=2 * 1024**3 / _seconds(lambda: rows @ rows),
        drawn=elements / _seconds(lambda: initial_normal(0, "rate", (elements,), 1.0)),
        scores=1024**2 / 2 / _seconds(lambda: attend(head, head, head, window=None, slope=None, sink=None)),
    )


def _seconds(work: Callable[[], object]) -> float:
    durations = []
    for _ in range(3):
        begin = time.perf_counter()
        work()
        durations.append(time.perf_counter() - begin)
    return min(durations)
