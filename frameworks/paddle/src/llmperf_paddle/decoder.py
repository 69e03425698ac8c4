"""A decoder in `paddle.nn`, as units that follow one another, so that a pipeline can take any run of them.

Parameters have the names of Hugging Face checkpoints (`Unit.canonical`); matrices are [in, out], as Paddle has them.
"""

from __future__ import annotations

import paddle
from paddle import nn
from paddle.distributed.fleet.base.topology import CommunicateTopology

from llmperf_paddle.blocks import Design, FeedForward, RMSNorm, Rotaries, SelfAttention


class Unit(nn.Layer):
    """A part of the model that a pipeline stage holds whole."""

    def canonical(self, name: str) -> str:
        """The name in Hugging Face checkpoints of one of its parameters."""
        return f"model.{name}"


class EmbeddingUnit(Unit):
    """Ids [batch, seq_len] to states [batch, seq_len, hidden_size]."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        self._scale = design.facts.embedding_scale
        self.embed_tokens = design.layers.embedding(design.facts.vocab_size, design.facts.hidden_size)

    def forward(self, ids: paddle.Tensor) -> paddle.Tensor:
        """Look up, and scale where the model does."""
        states = self.embed_tokens(ids)
        return states if self._scale == 1 else states * self._scale


class DecoderUnit(Unit):
    """One transformer block. Fleet divides the model by the name of this class."""

    def __init__(self, design: Design, index: int, rotaries: Rotaries) -> None:
        super().__init__()
        self._index = index
        self._checkpointing = design.checkpointing
        self._reentrant = design.reentrant
        self.input_layernorm = RMSNorm(design)
        self.self_attn = SelfAttention(design, index, rotaries)
        self.post_attention_layernorm = RMSNorm(design)
        self._four_norms = design.facts.norms_per_block == 4
        if self._four_norms:
            self.pre_feedforward_layernorm = RMSNorm(design)
            self.post_feedforward_layernorm = RMSNorm(design)
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
        if self._four_norms:
            states = states + self.post_attention_layernorm(self.self_attn(self.input_layernorm(states)))
            return states + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(states)))
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


class Decoder(nn.Layer):
    """All units; `forward(ids, labels)` gives the mean cross entropy."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        self._layers = design.layers
        embedding = EmbeddingUnit(design)
        rotaries = Rotaries(design.facts, fused="rope" in design.fused)
        blocks = [DecoderUnit(design, index, rotaries) for index in range(design.facts.layers)]
        tied = embedding.embed_tokens.weight if design.facts.tied_embeddings else None
        self.units = nn.LayerList([embedding, *blocks, HeadUnit(design, tied)])

    def forward(self, ids: paddle.Tensor, labels: paddle.Tensor) -> paddle.Tensor:
        """Loss in nats per token of ids and labels [batch, seq_len]."""
        states = ids
        for unit in self.units:
            states = unit(states)
        return self._layers.mean_cross_entropy(states, labels)


def pipelined(design: Design, topology: CommunicateTopology) -> nn.Layer:
    """This rank's stage: blocks in equal shares, the embedding with the first, the head with the last."""
    from paddle.distributed.fleet.meta_parallel import LayerDesc, PipelineLayer

    rotaries = Rotaries(design.facts, fused="rope" in design.fused)
    blocks = [LayerDesc(DecoderUnit, design, index, rotaries) for index in range(design.facts.layers)]
    return PipelineLayer(
        layers=[LayerDesc(EmbeddingUnit, design), *blocks, LayerDesc(HeadUnit, design)],
        loss_fn=design.layers.mean_cross_entropy,
        topology=topology,
        seg_method="layer:DecoderUnit",
    )
