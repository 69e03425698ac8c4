"""Sharding by FSDP2 (`fully_shard`): the mesh, what each stage keeps, gathers and reduces, the parts of a rank.

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

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from llmperf_pytorch.models import blocks_of, fill_part
from llmperf_pytorch.precision import held_dtype, rest_dtype

if TYPE_CHECKING:
    from llmperf.types import Layout, Model, RunSpec
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

DIMENSIONS = ("pipeline", "replicate", "shard", "tensor")
"""Slowest first: neighbouring ranks are tensor parallel, then share one copy of the sharded state, then hold replicas,
then are stages of a pipeline, as in `Layout.rank_order`."""


def rank_mesh(layout: Layout, device_type: str) -> DeviceMesh:
    """All ranks; data parallelism is divided into replicas and the ranks that share one copy of the sharded state."""
    shards = layout.sharding_degree if layout.sharding_stage else 1
    sizes = (layout.pipeline_parallel, layout.data_parallel // shards, shards, layout.tensor_parallel)
    return init_device_mesh(device_type, sizes, mesh_dim_names=DIMENSIONS)


def expert_mesh(layout: Layout, device_type: str) -> DeviceMesh:
    """The data-parallel ranks: neighbouring ones share the experts of each mixture, others hold the same ones."""
    sizes = (layout.data_parallel // layout.expert_parallel, layout.expert_parallel)
    return init_device_mesh(device_type, sizes, mesh_dim_names=("replicate", "experts"))


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


class Shard:
    """One parameter. `local` shares the memory of this rank's part, and is what the optimiser updates."""

    def __init__(self, name: str, parameter: torch.nn.Parameter) -> None:
        self.name = name
        self.parameter = parameter
        self.local = _local(parameter).detach().requires_grad_(parameter.requires_grad)

    def take_gradient(self) -> None:
        """Give `local` this rank's part of the gradient."""
        gradient: Any = self.parameter.grad
        if isinstance(gradient, DTensor) and isinstance(self.parameter, DTensor):
            gradient = gradient.redistribute(placements=self.parameter.placements)
        self.local.grad = None if gradient is None else _local(gradient)

    def drop_gradient(self) -> None:
        """Free the gradient."""
        self.parameter.grad = self.local.grad = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole parameter."""
        return tuple(self.parameter.shape)

    @property
    def groups(self) -> tuple[ProcessGroup, ...]:
        """The groups of ranks that hold different parts of it."""
        if not isinstance(self.parameter, DTensor):
            return ()
        mesh = self.parameter.device_mesh
        cut = enumerate(self.parameter.placements)
        return tuple(mesh.get_group(axis) for axis, placement in cut if _dimension(placement) is not None)

    def ranges(self) -> list[range]:
        """Ranges of indexes, by dimension of the whole parameter, that this rank holds.

        Tensor-parallel ranks, the last dimension of the mesh, divide a parameter before other ranks share its parts.
        """
        ranges = [range(size) for size in self.parameter.shape]
        if isinstance(self.parameter, DTensor):
            mesh = self.parameter.device_mesh
            for axis in reversed(range(mesh.ndim)):
                dimension = _dimension(self.parameter.placements[axis])
                if dimension is not None:
                    whole = ranges[dimension]
                    part = -(-len(whole) // mesh.size(axis))  # as torch.chunk divides
                    first = mesh.get_local_rank(axis) * part
                    ranges[dimension] = whole[first : first + part]
        return ranges

    def fill(self, facts: Model, seed: int) -> None:
        """Set this rank's part to its initial values."""
        fill_part(self.name, self.shape, self.local, self.ranges(), facts, seed)


def total_norm(shards: Sequence[Shard], everywhere: Sequence[ProcessGroup] = ()) -> torch.Tensor:
    """The norm of the whole gradient; the ranks of `everywhere` hold different parameters."""
    sums: list[torch.Tensor] = []
    for groups, gradients in _by_groups(shards):
        squares = torch.stack(torch._foreach_norm(gradients)).square().sum()
        for group in groups:
            torch.distributed.all_reduce(squares, group=group)
        sums.append(squares)
    whole = torch.stack(sums).sum()
    for group in everywhere:
        torch.distributed.all_reduce(whole, group=group)
    return whole.sqrt()


def _by_groups(shards: Sequence[Shard]) -> Iterator[tuple[tuple[ProcessGroup, ...], list[torch.Tensor]]]:
    """Gradients of the parameters that are divided among the same ranks; in the same order on each of them."""
    gathered: dict[tuple[ProcessGroup, ...], list[torch.Tensor]] = defaultdict(list)
    for shard in shards:
        if shard.local.grad is not None:
            gathered[shard.groups].append(shard.local.grad)
    yield from gathered.items()


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _dimension(placement: Any) -> int | None:
    """The dimension that a placement divides; None for a replica."""
    dimension: int | None = getattr(placement, "dim", None)
    return dimension
