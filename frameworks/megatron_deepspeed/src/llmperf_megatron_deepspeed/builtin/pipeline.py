"""The model as DeepSpeed's pipeline: the embedding on the first stage, equally many blocks on each, the head last."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec
from deepspeed.runtime.pipe.topology import PipelineParallelGrid, PipeModelDataParallelTopology
from llmperf_pytorch.models import default_dtype

from llmperf_megatron_deepspeed.builtin.blocks import Block, FinalNorm, Head
from llmperf_megatron_deepspeed.builtin.cross_entropy import sharded_cross_entropy
from llmperf_megatron_deepspeed.builtin.layers import VocabEmbedding
from llmperf_megatron_deepspeed.builtin.shards import fill_shard
from llmperf_megatron_deepspeed.builtin.tensor_parallel import TensorParallel

if TYPE_CHECKING:
    from llmperf.types import Layout, RunSpec


def build_pipeline(spec: RunSpec, layout: Layout) -> tuple[PipelineModule, TensorParallel]:
    """This rank's stage with its initial weights, in the case's precision, and the ranks it shares its layers with."""
    topology = PipeModelDataParallelTopology(
        num_pp=layout.pipeline_parallel, num_mp=layout.tensor_parallel, num_dp=layout.data_parallel
    )
    ranks = tensor_ranks(spec, PipelineParallelGrid(topology=topology), layout)  # the layers need the group
    with default_dtype(spec.contract.precision):
        module = PipelineModule(
            layers=layer_specs(spec, ranks),
            topology=topology,
            loss_fn=partial(_loss, ranks),
            partition_method="type:Block",
            activation_checkpoint_interval=1 if spec.tuning.gradient_checkpointing else 0,
            checkpointable_layers=["Block"] if spec.tuning.gradient_checkpointing else None,
        )
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


def layer_specs(spec: RunSpec, ranks: TensorParallel) -> list[LayerSpec]:
    """All layers in order, none of them made yet."""
    facts = spec.model
    size = (facts.vocab_size, facts.hidden_size, ranks)
    blocks = [LayerSpec(Block, index, facts, spec.tuning.attention, ranks) for index in range(facts.layers)]
    norm = LayerSpec(FinalNorm, facts, ranks)
    if not facts.tied_embeddings:
        return [LayerSpec(VocabEmbedding, *size), *blocks, norm, LayerSpec(Head, facts, ranks)]
    tied = partial(TiedLayerSpec, "embed_tokens", VocabEmbedding, *size, tied_weight_attr=["weight"])
    return [tied(), *blocks, norm, tied(forward_fn=VocabEmbedding.logits)]


def _loss(ranks: TensorParallel, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return sharded_cross_entropy(logits, labels, ranks)
