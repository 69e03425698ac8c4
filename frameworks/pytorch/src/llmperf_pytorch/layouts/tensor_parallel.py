"""Tensor parallelism by DTensor: projections by columns and rows, the vocabulary in embedding, head and loss.

Shoeybi et al. 2019 (Megatron-LM), section 3; with `sequence_parallel` also norms and residuals, each rank a part of the
sequence (Korthikanti et al. 2022, section 4.2.2). For modules with the names of LLaMA's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from llmperf_pytorch.models import blocks_of

if TYPE_CHECKING:
    from llmperf.types import RunSpec
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor.parallel import ParallelStyle


def divide_model(model: torch.nn.Module, spec: RunSpec, ranks: DeviceMesh) -> None:
    """Divide each block, the embedding and the head among `ranks`; logits [batch, seq_len, vocab_size] are a DTensor
    that is divided by the vocabulary."""
    sequence = spec.tuning.sequence_parallel
    residual = Shard(1) if sequence else Replicate()
    for block in blocks_of(model):
        parallelize_module(block, ranks, _block_styles(residual, sequence))
    outside: dict[str, ParallelStyle] = {
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=residual),
        "lm_head": ColwiseParallel(input_layouts=residual, output_layouts=Shard(-1), use_local_output=False),
    }
    if sequence:
        outside["model.norm"] = SequenceParallel(use_local_output=True)
    present = {name: style for name, style in outside.items() if _has(model, name)}
    parallelize_module(model, ranks, present)
    if spec.model.tied_embeddings:
        model.get_submodule("lm_head").weight = model.get_submodule("model.embed_tokens").weight


def _block_styles(residual: Shard | Replicate, sequence: bool) -> dict[str, ParallelStyle]:
    """Inputs of a block's halves are made whole once, for all projections of them."""
    styles: dict[str, ParallelStyle] = {
        "self_attn": PrepareModuleInput(input_layouts=(residual, None), desired_input_layouts=(Replicate(), None)),
        "mlp": PrepareModuleInput(input_layouts=(residual,), desired_input_layouts=(Replicate(),)),
        "self_attn.o_proj": RowwiseParallel(output_layouts=residual),
        "mlp.down_proj": RowwiseParallel(output_layouts=residual),
    }
    columns = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
    styles |= {name: ColwiseParallel() for name in columns}
    if sequence:
        styles |= {"input_layernorm": SequenceParallel(), "post_attention_layernorm": SequenceParallel()}
    return styles


def _has(model: torch.nn.Module, name: str) -> bool:
    """A stage of a pipeline has no embedding or no head."""
    return name in dict(model.named_modules())


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """A result of divided operations as a plain tensor, the same on each rank."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
