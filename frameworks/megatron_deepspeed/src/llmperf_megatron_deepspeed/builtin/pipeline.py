"""The model as DeepSpeed's pipeline: the embedding on the first stage, equally many blocks on each, the head last."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec
from deepspeed.runtime.pipe.topology import PipelineParallelGrid, PipeModelDataParallelTopology
from llmperf_pytorch.kernels.compiled import compile_blocks
from llmperf_pytorch.precision import default_dtype, rest_dtype

from llmperf_megatron_deepspeed.builtin.blocks import Block, FinalNorm, Head
from llmperf_megatron_deepspeed.builtin.cross_entropy import projected_cross_entropy, sharded_cross_entropy
from llmperf_megatron_deepspeed.builtin.shards import VocabEmbedding, fill_shard
from llmperf_megatron_deepspeed.builtin.tensor_parallel import TensorParallel

if TYPE_CHECKING:
    from llmperf.types import Layout, RunSpec
    from llmperf_pytorch.kernels.choice import Kernels


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
