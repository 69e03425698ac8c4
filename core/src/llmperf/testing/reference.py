"""The loss that weights and tokens of a plan give before anything is learnt, by a small Llama in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llmperf.tokens.batches import open_batches
from llmperf.tokens.draws import initial_normal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llmperf.types import Model, Plan

    Floats = NDArray[np.float64]

DEFAULT_THETA = 10000.0


def unknown(model: Model, packing: str) -> str | None:
    """Why the first loss of a model cannot be told here; None when it can."""
    if model.family != "llama" or model.position_encoding != "rope" or model.normalized_head:
        return f"llmperf knows the first loss of a Llama with rotary positions only, not of {model.name}"
    if packing != "packed":
        return f"llmperf knows the first loss of packed sequences only, not of {packing} ones"
    return None


def first_loss(plan: Plan) -> float:
    """Mean cross entropy per token of step 0 over all ranks, in nats, in double precision."""
    llama, losses = Llama(plan.spec.model, plan.spec.contract.seed), []
    for rank in range(plan.batch.data_parallel):
        with open_batches(plan, rank) as batches:
            for _ in range(plan.batch.gradient_accumulation):
                losses.append(_cross_entropy(llama, batches.next_micro_batch()))
    return float(np.mean(losses))


def _cross_entropy(llama: Llama, rows: NDArray[np.int64]) -> float:
    logits = llama.logits(rows[:, :-1])
    highest = logits.max(axis=-1, keepdims=True)
    normalised = logits - highest - np.log(np.exp(logits - highest).sum(axis=-1, keepdims=True))
    return float(-np.take_along_axis(normalised, rows[:, 1:, None], axis=-1).mean())


class Llama:
    """A model's forward pass with its initial weights; weights of norms are 1 then and left out."""

    def __init__(self, model: Model, seed: int) -> None:
        self._model = model
        self._seed = seed
        self._width = model.hidden_size // model.attention_heads

    def logits(self, ids: NDArray[np.int64]) -> Floats:
        """[batch, seq_len, vocab_size] of ids [batch, seq_len]."""
        model = self._model
        embedding = self._weight("model.embed_tokens", model.vocab_size, model.hidden_size)
        states = embedding[ids]
        for layer in range(model.layers):
            states = states + self._attention(f"model.layers.{layer}.self_attn", self._normed(states))
            states = states + self._mlp(f"model.layers.{layer}.mlp", self._normed(states))
        head = embedding if model.tied_embeddings else self._weight("lm_head", model.vocab_size, model.hidden_size)
        logits: Floats = self._normed(states) @ head.T
        return logits

    def _weight(self, name: str, rows: int, columns: int) -> Floats:
        drawn = initial_normal(self._seed, f"{name}.weight", (rows, columns), self._model.initializer_std)
        return drawn.astype(np.float64)

    def _normed(self, states: Floats) -> Floats:
        scaled: Floats = states / np.sqrt(np.square(states).mean(axis=-1, keepdims=True) + self._model.norm_eps)
        return scaled

    def _mlp(self, name: str, states: Floats) -> Floats:
        inner, outer = self._model.intermediate_size, self._model.hidden_size
        gate = states @ self._weight(f"{name}.gate_proj", inner, outer).T
        raised = states @ self._weight(f"{name}.up_proj", inner, outer).T
        lowered: Floats = (gate / (1 + np.exp(-gate)) * raised) @ self._weight(f"{name}.down_proj", outer, inner).T
        return lowered

    def _attention(self, name: str, states: Floats) -> Floats:
        heads, shared = self._model.attention_heads, self._model.kv_heads
        queries = self._turned(self._heads(f"{name}.q_proj", states, heads))
        keys = self._turned(self._heads(f"{name}.k_proj", states, shared)).repeat(heads // shared, axis=1)
        values = self._heads(f"{name}.v_proj", states, shared).repeat(heads // shared, axis=1)
        scores = queries @ keys.swapaxes(-1, -2) / np.sqrt(self._width)
        later = np.triu(np.ones(scores.shape[-2:], dtype=bool), k=1)
        shares = np.exp(np.where(later, -np.inf, scores - scores.max(axis=-1, keepdims=True)))
        mixed = (shares / shares.sum(axis=-1, keepdims=True)) @ values
        joined = mixed.swapaxes(1, 2).reshape(*states.shape[:2], heads * self._width)
        attended: Floats = joined @ self._weight(f"{name}.o_proj", self._model.hidden_size, heads * self._width).T
        return attended

    def _heads(self, name: str, states: Floats, count: int) -> Floats:
        """[batch, heads, seq_len, width]."""
        projected: Floats = states @ self._weight(name, count * self._width, self._model.hidden_size).T
        split: Floats = projected.reshape(*states.shape[:2], count, self._width).swapaxes(1, 2)
        return split

    def _turned(self, states: Floats) -> Floats:
        """Rotary positions, halves rotated as in LLaMA checkpoints."""
        theta = self._model.rope_theta or DEFAULT_THETA
        frequencies = 1.0 / theta ** (np.arange(0, self._width, 2) / self._width)
        angles = np.tile(np.arange(states.shape[2])[:, None] * frequencies, 2)
        low, high = np.split(states, 2, axis=-1)
        turned: Floats = states * np.cos(angles) + np.concatenate([-high, low], axis=-1) * np.sin(angles)
        return turned
