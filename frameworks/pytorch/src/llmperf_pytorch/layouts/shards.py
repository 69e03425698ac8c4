"""The part of each parameter that this rank holds: its initial values, its gradient, and the norm of all gradients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.tensor import DTensor

from llmperf_pytorch.weights import fill_part

if TYPE_CHECKING:
    from llmperf.types import Model
    from torch.distributed import ProcessGroup


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


def shards_of(model: torch.nn.Module) -> list[Shard]:
    """The shards of all parameters, tied ones once."""
    return [Shard(name, parameter) for name, parameter in model.named_parameters()]


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
