"""LLaMA in `paddle.nn`, as units that follow one another, so that a pipeline can take any run of them.

Parameters have the names of Hugging Face checkpoints (`Unit.canonical`); matrices are [in, out], as Paddle has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import paddle
from paddle import nn
from paddle.nn import functional

from llmperf_paddle.attention import ATTENTION
from llmperf_paddle.rotary import Rotary

if TYPE_CHECKING:
    from llmperf.types import Model, RunSpec

    from llmperf_paddle.layers import Layers


@dataclass(frozen=True)
class Design:
    """What the units of one model are made from."""

    facts: Model
    layers: Layers
    attention: str
    checkpointing: bool
    fused: tuple[str, ...]
    reentrant: bool
    """How blocks are recomputed: fleet's default, which `DataParallel` takes for a second use of each parameter."""

    @classmethod
    def of(cls, spec: RunSpec, fused_ops: tuple[str, ...], layers: Layers) -> Design:
        """From a spec and its fused operations, `auto` expanded."""
        tuning = spec.tuning
        sharded = tuning.sharding_stage > 0 and tuning.sharding_degree != 1
        replicas = tuning.tensor_parallel == tuning.pipeline_parallel == 1 and not sharded
        return cls(
            facts=spec.model,
            layers=layers,
            attention=tuning.attention,
            checkpointing=tuning.gradient_checkpointing,
            fused=fused_ops,
            reentrant=not replicas,
        )


class Unit(nn.Layer):
    """A part of the model that a pipeline stage holds whole."""

    def canonical(self, name: str) -> str:
        """The name in Hugging Face checkpoints of one of its parameters."""
        return f"model.{name}"


class RMSNorm(nn.Layer):
    """Root mean square norm, computed in float32 (Zhang and Sennrich, arXiv 1910.07467)."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        self._eps = design.facts.norm_eps
        self._fused = "rms_norm" in design.fused
        ones = nn.initializer.Constant(1.0)
        self.weight = self.create_parameter([design.facts.hidden_size], default_initializer=ones)

    def forward(self, states: paddle.Tensor) -> paddle.Tensor:
        """[batch, seq_len, hidden_size] to the same."""
        if self._fused:
            from paddle.incubate.nn.functional import fused_rms_norm

            weight = self.weight.astype(states.dtype)
            return fused_rms_norm(states, weight, None, self._eps, begin_norm_axis=states.ndim - 1)[0]
        with paddle.amp.auto_cast(enable=False):
            exact = states.astype("float32")
            scaled = exact * paddle.rsqrt((exact * exact).mean(-1, keepdim=True) + self._eps)
            return scaled.astype(states.dtype) * self.weight.astype(states.dtype)


class SelfAttention(nn.Layer):
    """Causal attention of this rank's heads, keys and values grouped where the model has fewer."""

    def __init__(self, design: Design, rotary: Rotary) -> None:
        super().__init__()
        facts, layers = design.facts, design.layers
        self._width = facts.hidden_size // facts.attention_heads
        self._rotary = rotary
        self._attend = ATTENTION[design.attention]
        self.q_proj = layers.column(facts.hidden_size, facts.hidden_size)
        self.k_proj = layers.column(facts.hidden_size, self._width * facts.kv_heads)
        self.v_proj = layers.column(facts.hidden_size, self._width * facts.kv_heads)
        self.o_proj = layers.row(facts.hidden_size, facts.hidden_size)

    def forward(self, states: paddle.Tensor) -> paddle.Tensor:
        """[batch, seq_len, hidden_size] to the same."""
        batch, seq_len = states.shape[0], states.shape[1]
        query, key, value = (
            project(states).reshape([batch, seq_len, -1, self._width])
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        query, key = self._rotary.turn(query, key)
        return self.o_proj(self._attend(query, key, value).reshape([batch, seq_len, -1]))


class FeedForward(nn.Layer):
    """SwiGLU (Shazeer, arXiv 2002.05202)."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        facts, layers = design.facts, design.layers
        self._multiply = _fused_swiglu() if "swiglu" in design.fused else _swiglu
        self.gate_proj = layers.column(facts.hidden_size, facts.intermediate_size)
        self.up_proj = layers.column(facts.hidden_size, facts.intermediate_size)
        self.down_proj = layers.row(facts.intermediate_size, facts.hidden_size)

    def forward(self, states: paddle.Tensor) -> paddle.Tensor:
        """[batch, seq_len, hidden_size] to the same."""
        return self.down_proj(self._multiply(self.gate_proj(states), self.up_proj(states)))


def _swiglu(gate: paddle.Tensor, up: paddle.Tensor) -> paddle.Tensor:
    return functional.silu(gate) * up


def _fused_swiglu() -> Callable[[paddle.Tensor, paddle.Tensor], paddle.Tensor]:
    """The same as one kernel."""
    if hasattr(functional, "swiglu"):
        return functional.swiglu
    from paddle.incubate.nn.functional import swiglu  # before Paddle 3.3

    return swiglu


class EmbeddingUnit(Unit):
    """Ids [batch, seq_len] to states [batch, seq_len, hidden_size]."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        self.embed_tokens = design.layers.embedding(design.facts.vocab_size, design.facts.hidden_size)

    def forward(self, ids: paddle.Tensor) -> paddle.Tensor:
        """Look up."""
        return self.embed_tokens(ids)


class DecoderUnit(Unit):
    """One transformer block. Fleet divides the model by the name of this class."""

    def __init__(self, design: Design, index: int, rotary: Rotary) -> None:
        super().__init__()
        self._index = index
        self._checkpointing = design.checkpointing
        self._reentrant = design.reentrant
        self.input_layernorm = RMSNorm(design)
        self.self_attn = SelfAttention(design, rotary)
        self.post_attention_layernorm = RMSNorm(design)
        self.mlp = FeedForward(design)

    def canonical(self, name: str) -> str:
        """With the block's number."""
        return f"model.layers.{self._index}.{name}"

    def forward(self, states: paddle.Tensor) -> paddle.Tensor:
        """[batch, seq_len, hidden_size] to the same."""
        if not (self._checkpointing and self.training):
            return self._compute(states)
        from paddle.distributed.fleet.utils import recompute

        # there is no dropout, so no state of a generator to restore
        return recompute(self._compute, states, preserve_rng_state=False, use_reentrant=self._reentrant)

    def _compute(self, states: paddle.Tensor) -> paddle.Tensor:
        states = states + self.self_attn(self.input_layernorm(states))
        return states + self.mlp(self.post_attention_layernorm(states))


class HeadUnit(Unit):
    """States to this rank's logits [batch, seq_len, vocab_size / tensor parallel]."""

    def __init__(self, design: Design, embedding: paddle.Tensor | None = None) -> None:
        super().__init__()
        facts = design.facts
        self._layers = design.layers
        self._tied = (embedding,)  # in a tuple, so that the parameter has one owner
        self.norm = RMSNorm(design)
        if embedding is None:
            self.lm_head = design.layers.column(facts.hidden_size, facts.vocab_size)

    def canonical(self, name: str) -> str:
        """The projection is beside `model` in checkpoints, not inside it."""
        return name if name.startswith("lm_head.") else f"model.{name}"

    def forward(self, states: paddle.Tensor) -> paddle.Tensor:
        """Norm and projection."""
        states = self.norm(states)
        embedding = self._tied[0]
        return self.lm_head(states) if embedding is None else self._layers.tied_logits(states, embedding)


class Llama(nn.Layer):
    """All units; `forward(ids, labels)` gives the mean cross entropy."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        self._layers = design.layers
        embedding = EmbeddingUnit(design)
        rotary = rotary_of(design)
        blocks = [DecoderUnit(design, index, rotary) for index in range(design.facts.layers)]
        tied = embedding.embed_tokens.weight if design.facts.tied_embeddings else None
        self.units = nn.LayerList([embedding, *blocks, HeadUnit(design, tied)])

    def forward(self, ids: paddle.Tensor, labels: paddle.Tensor) -> paddle.Tensor:
        """Loss in nats per token of ids and labels [batch, seq_len]."""
        states = ids
        for unit in self.units:
            states = unit(states)
        return self._layers.mean_cross_entropy(states, labels)


def rotary_of(design: Design) -> Rotary:
    """The rotary encoding that all blocks share."""
    facts = design.facts
    width = facts.hidden_size // facts.attention_heads
    return Rotary(width, facts.rope_theta, fused="rope" in design.fused)


def pipelined(design: Design, topology: paddle.distributed.fleet.base.topology.CommunicateTopology) -> nn.Layer:
    """This rank's stage: blocks in equal shares, the embedding with the first, the head with the last."""
    from paddle.distributed.fleet.meta_parallel import LayerDesc, PipelineLayer

    rotary = rotary_of(design)
    blocks = [LayerDesc(DecoderUnit, design, index, rotary) for index in range(design.facts.layers)]
    return PipelineLayer(
        layers=[LayerDesc(EmbeddingUnit, design), *blocks, LayerDesc(HeadUnit, design)],
        loss_fn=design.layers.mean_cross_entropy,
        topology=topology,
        seg_method="layer:DecoderUnit",
    )
