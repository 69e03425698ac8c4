"""Sharding by FSDP2 (`fully_shard`): what each stage keeps, gathers and reduces.

FSDP2 divides the weights that are updated and AdamW states among the ranks at every stage, float32 or in pure bf16
bfloat16, and gathers the parameters in the dtype of the products. The stages (Rajbhandari et al. 2020) are when it
gathers and reduces:

| Stage | Gathered parameters are kept | Gradients are reduced |
|---|---|---|
| 0, 1 | from the first micro batch of a step to the last | with the last micro batch, added up whole until then |
| 2 | from the first micro batch of a step to the last | with each micro batch, added up in shards |
| 3 | for one block at a time | with each micro batch, added up in shards |

Stage 0 has one rank in each sharding group.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from llmperf_pytorch.models import blocks_of
from llmperf_pytorch.precision import held_dtype, rest_dtype

if TYPE_CHECKING:
    from llmperf.types import RunSpec
    from torch.distributed.device_mesh import DeviceMesh


def shard_model(
    model: torch.nn.Module, spec: RunSpec, mesh: DeviceMesh, left_out: Set[torch.nn.Parameter] = frozenset()
) -> FSDPModule:
    """The same model, each of its blocks gathered by itself; `mesh` has the dimensions `replicate` and `shard`.

    Parameters that are `left_out` stay as they are.
    """
    kept = spec.tuning.sharding_stage < 3
    data = mesh["replicate", "shard"] if mesh["replicate"].size() > 1 else mesh["shard"]
    policy: dict[str, Any] = {"mp_policy": mixed_precision(spec)}
    if left_out:  # torch 2.6 has no such argument
        policy["ignored_params"] = set(left_out)
    blocks = blocks_of(model)
    for block in blocks:
        fully_shard(block, mesh=data, **policy, reshard_after_forward=not kept)
    if not spec.model.tied_embeddings and spec.tuning.tensor_parallel == 1:
        decoder = model.get_submodule("model")
        fully_shard(decoder.get_submodule("embed_tokens"), mesh=data, **policy, reshard_after_forward=not kept)
    fully_shard(model, mesh=data, **policy, reshard_after_forward=False)
    _prefetch([block for block in blocks if isinstance(block, FSDPModule)], int(spec.framework.get("prefetch", 1)))
    assert isinstance(model, FSDPModule)
    return model


def mixed_precision(spec: RunSpec) -> MixedPrecisionPolicy:
    """Computed in the case's precision; gradients are reduced in it too, unless the accumulation is in float32."""
    dtype = rest_dtype(spec.contract.precision)
    if dtype is held_dtype(spec.contract.precision):
        return MixedPrecisionPolicy()
    reduced = torch.float32 if spec.tuning.accumulation_dtype == "fp32" else dtype
    return MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=reduced)


def settle_shards(model: torch.nn.Module) -> None:
    """Gather each part once: FSDP2 then replaces shards of unequal sizes by padded ones, which stay where they are."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.unshard()
            module.reshard()


def begin_micro_batch(model: FSDPModule, stage: int, *, last: bool) -> None:
    """Set what the next forward and backward pass keeps and reduces; `last`: the last micro batch of its step."""
    model.set_is_last_backward(last)
    model.set_requires_gradient_sync(last or stage >= 2)
    model.set_requires_all_reduce(last)
    model.set_reshard_after_backward(last or stage == 3)


def _prefetch(blocks: list[FSDPModule], depth: int) -> None:
    """Gather the parameters of the next `depth` blocks while one computes, forward and backward."""
    for place, block in enumerate(blocks):
        block.set_modules_to_forward_prefetch(blocks[place + 1 : place + 1 + depth])
        block.set_modules_to_backward_prefetch(blocks[max(0, place - depth) : place][::-1])
