"""The model as DeepSpeed's pipeline: the embedding first, equally many blocks on each stage, the head last."""

from __future__ import annotations

from functools import partial

import torch
from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec
from deepspeed.runtime.pipe.topology import PipelineParallelGrid, PipeModelDataParallelTopology
from llmperf.types import Layout, Model, RunSpec
from llmperf_pytorch.decoder.mixture import gated_activation
from llmperf_pytorch.kernels.choice import Kernels
from llmperf_torchkit.compiled import compile_blocks
from llmperf_torchkit.precision import default_dtype, rest_dtype
from torch import nn

from llmperf_megatron_deepspeed.builtin.attention import SelfAttention
from llmperf_megatron_deepspeed.builtin.shards import ColumnParallel, RmsNorm, RowParallel, VocabEmbedding, fill_shard
from llmperf_megatron_deepspeed.builtin.tensor_parallel import (
    TensorParallel,
    projected_cross_entropy,
    sharded_cross_entropy,
)


class FeedForward(nn.Module):
    """A gated feed-forward layer (Shazeer 2020), its inner columns shared out.

    Here as below, states are [batch, seq_len / ranks, hidden_size] if the sequence is divided.
    """

    def __init__(self, name: str, facts: Model, ranks: TensorParallel, kernels: Kernels) -> None:
        super().__init__()
        self._activate = gated_activation(facts, kernels)
        hidden, inner, bias, self._ranks = facts.hidden_size, facts.intermediate_size, facts.feed_forward_bias, ranks
        self.gate_proj = ColumnParallel(f"{name}.gate_proj", hidden, inner, ranks, bias=bias)
        self.up_proj = ColumnParallel(f"{name}.up_proj", hidden, inner, ranks, bias=bias)
        self.down_proj = RowParallel(f"{name}.down_proj", inner, hidden, ranks, bias=bias)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """[batch, seq_len, hidden_size] to the same."""
        gate, up = self._ranks.projected(states, self.gate_proj, self.up_proj)
        return self.down_proj(self._activate(gate, up))


class Block(nn.Module):
    """One layer: attention and feed-forward, each normalised before, or before and after, and added to what came in."""

    def __init__(self, index: int, facts: Model, attention: str, ranks: TensorParallel, kernels: Kernels) -> None:
        super().__init__()
        name = f"model.layers.{index}"

        def norm(position: str) -> RmsNorm:
            return RmsNorm(f"{name}.{position}_layernorm", facts, ranks, kernels)

        self.input_layernorm, self.post_attention_layernorm = norm("input"), norm("post_attention")
        self.four_norms = facts.norms_per_block == 4
        if self.four_norms:
            self.pre_feedforward_layernorm = norm("pre_feedforward")
            self.post_feedforward_layernorm = norm("post_feedforward")
        self.self_attn = SelfAttention(f"{name}.self_attn", index, facts, attention, ranks, kernels)
        self.mlp = FeedForward(f"{name}.mlp", facts, ranks, kernels)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """[batch, seq_len, hidden_size] to the same."""
        if self.four_norms:
            states = states + self.post_attention_layernorm(self.self_attn(self.input_layernorm(states)))
            return states + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(states)))
        states = states + self.self_attn(self.input_layernorm(states))
        return states + self.mlp(self.post_attention_layernorm(states))


class Head(nn.Module):
    """The output projection with weights of its own, each rank with some of the vocabulary.

    With `fuses_loss` it leaves the projection to the loss.
    """

    def __init__(self, facts: Model, ranks: TensorParallel, *, fuses_loss: bool) -> None:
        super().__init__()
        self._ranks, self._fuses_loss = ranks, fuses_loss
        self.projection = ColumnParallel("lm_head", facts.hidden_size, facts.vocab_size, ranks)

    def forward(self, states: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """This rank's share [batch, seq_len, vocab_size / ranks] of the logits, or what it is the product of."""
        if self._fuses_loss:
            return self._ranks.shared(states), self.projection.weight
        return self._ranks.products(states, self.projection.weight)[0]


class FinalNorm(nn.Module):
    """The last norm; a module of its own, so that its weight is named as a norm's."""

    def __init__(self, facts: Model, ranks: TensorParallel, kernels: Kernels) -> None:
        super().__init__()
        self.norm = RmsNorm("model.norm", facts, ranks, kernels)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """The same shape."""
        return self.norm(states)


def build_pipeline(spec: RunSpec, layout: Layout, kernels: Kernels) -> tuple[PipelineModule, TensorParallel]:
    """This rank's stage with its initial weights, in the case's precision, and the ranks it shares its layers with."""
    topology = PipeModelDataParallelTopology(
        num_pp=layout.pipeline_parallel, num_mp=layout.tensor_parallel, num_dp=layout.data_parallel
    )
    ranks = tensor_ranks(spec, PipelineParallelGrid(topology=topology), layout)  # the layers need the group
    with default_dtype(rest_dtype(spec.contract.precision)):
        module = PipelineModule(
            layers=layer_specs(spec, ranks, kernels),
            topology=topology,
            loss_fn=partial(_loss, ranks),
            partition_method="type:Block",
            activation_checkpoint_interval=1 if spec.tuning.gradient_checkpointing else 0,
            checkpointable_layers=["Block"] if spec.tuning.gradient_checkpointing else None,
        )
    if kernels.compiles_blocks:
        compile_blocks(layer for layer in module.forward_funcs if isinstance(layer, Block))
    for parameter in module.parameters():
        fill_shard(parameter, spec.model, spec.contract.seed)
    return module, ranks


def tensor_ranks(spec: RunSpec, grid: PipelineParallelGrid, layout: Layout) -> TensorParallel:
    """Whom this rank shares its layers with."""
    if layout.tensor_parallel == 1:
        return TensorParallel()
    return TensorParallel(
        rank=grid.get_slice_parallel_rank(),
        size=layout.tensor_parallel,
        group=grid.get_slice_parallel_group(),
        sequence=layout.sequence_parallel,
        overlap=bool(spec.framework.get("overlap_tensor_parallel", False)),
    )


def layer_specs(spec: RunSpec, ranks: TensorParallel, kernels: Kernels) -> list[LayerSpec]:
    """All layers in order, none of them made yet."""
    facts = spec.model
    given = (facts, spec.tuning.attention, ranks, kernels)
    blocks = [LayerSpec(Block, index, *given) for index in range(facts.layers)]
    norm = LayerSpec(FinalNorm, facts, ranks, kernels)
    if not facts.tied_embeddings:
        head = LayerSpec(Head, facts, ranks, fuses_loss=kernels.cross_entropy)
        return [LayerSpec(VocabEmbedding, facts, ranks), *blocks, norm, head]
    tied = partial(TiedLayerSpec, "embed_tokens", VocabEmbedding, facts, ranks, tied_weight_attr=["weight"])
    return [
        tied(),
        *blocks,
        norm,
        tied(forward_fn=VocabEmbedding.head if kernels.cross_entropy else VocabEmbedding.logits),
    ]


def _loss(
    ranks: TensorParallel, outputs: torch.Tensor | tuple[torch.Tensor, torch.Tensor], labels: torch.Tensor
) -> torch.Tensor:
    if isinstance(outputs, tuple):
        states, weight = outputs
        return projected_cross_entropy(states, weight, labels, ranks)
    return sharded_cross_entropy(outputs, labels, ranks)
