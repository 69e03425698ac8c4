"""Initial weights, the same in every trainer: whole parameters, slices, and the parts that ranks hold."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import llmperf
import torch
import torch.distributed
from llmperf.types import Model
from torch.distributed import ProcessGroup
from torch.distributed.tensor import DTensor

CHUNK = 2**24
"""Elements drawn on the host at a time: 64 MiB of float32."""


def count_parameters(model: torch.nn.Module) -> int:
    """Parameters of a model, tied ones once; those that ZeRO-3 has sharded count with their whole size."""
    return sum(int(getattr(parameter, "ds_numel", parameter.numel())) for parameter in model.parameters())


def fill_weights(model: torch.nn.Module, facts: Model, seed: int) -> None:
    """Set every parameter of an unsharded model. Tied parameters are one, under the name of the input embedding."""
    for name, parameter in model.named_parameters():
        fill_parameter(name, parameter, facts, seed)


@torch.no_grad()
def fill_parameter(name: str, parameter: torch.Tensor, facts: Model, seed: int) -> None:
    """Set a whole parameter, or the first experts of one that stacks experts."""
    fill_part(name, tuple(parameter.shape), parameter, tuple(map(range, parameter.shape)), facts, seed)


@torch.no_grad()
def fill_slice(name: str, shape: tuple[int, ...], values: torch.Tensor, start: int, facts: Model, seed: int) -> None:
    """Set a slice of a flattened parameter of a shape: `values` [length] are its elements from `start` on.

    What lies beyond the end of the parameter is padding, and stays as it is.
    """
    constant = llmperf.initial_constant(name, facts)
    values = values[: max(0, math.prod(shape) - start)]
    if constant is not None:
        values.fill_(constant)
        return
    if len(shape) == 3:
        layer, projection = name.rsplit(".", 1)
        each, position = math.prod(shape[1:]), 0
        while position < len(values):
            expert, inside = divmod(start + position, each)
            part = values[position : position + each - inside]
            fill_slice(f"{layer}.{expert}.{projection}.weight", shape[1:], part, inside, facts, seed)
            position += len(part)
        return
    for position in range(0, len(values), CHUNK):
        part = values[position : position + CHUNK]
        first = start + position
        drawn = llmperf.initial_normal(seed, name, shape, facts.initializer_std, first, first + len(part))
        part.copy_(torch.from_numpy(drawn))


@torch.no_grad()
def fill_part(
    name: str, shape: tuple[int, ...], part: torch.Tensor, ranges: Sequence[range], facts: Model, seed: int
) -> None:
    """Set a part of a parameter of a shape: the part with the indexes `ranges` of each dimension.

    What is not constant is drawn with the model's standard deviation, no more rows than are needed. Expert 3 of
    `experts.gate_proj` is drawn as `experts.3.gate_proj.weight`.
    """
    constant = llmperf.initial_constant(name, facts)
    if constant is not None:
        part.fill_(constant)
        return
    if len(shape) == 3:
        layer, projection = name.rsplit(".", 1)
        for place, expert in enumerate(ranges[0]):
            fill_part(f"{layer}.{expert}.{projection}.weight", shape[1:], part[place], ranges[1:], facts, seed)
        return
    rows, columns = ranges
    each = max(1, CHUNK // shape[1])
    for start in range(0, len(rows), each):
        drawn_rows = rows[start : start + each]
        ends = drawn_rows[0] * shape[1], (drawn_rows[-1] + 1) * shape[1]
        drawn = llmperf.initial_normal(seed, name, shape, facts.initializer_std, *ends)
        values = torch.from_numpy(drawn).view(len(drawn_rows), shape[1])
        part[start : start + len(drawn_rows)].copy_(values[:, columns.start : columns.stop])


class Shard:
    """One parameter. `local` shares the memory of this rank's part, and is what the optimiser updates."""

    def __init__(self, name: str, parameter: torch.nn.Parameter) -> None:
        self.name = name
        self.parameter = parameter
        self.local = local_part(parameter).detach().requires_grad_(parameter.requires_grad)

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
        """Ranges of indexes, by dimension of the whole parameter, that this rank holds."""
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


def total_norm(shards: Sequence[Shard]) -> torch.Tensor:
    """The norm of the whole gradient."""
    by_groups: dict[tuple[ProcessGroup, ...], list[torch.Tensor]] = defaultdict(list)
    for shard in shards:  # in the same order on each rank
        if shard.local.grad is not None:
            by_groups[shard.groups].append(shard.local.grad)
    sums: list[torch.Tensor] = []
    for groups, gradients in by_groups.items():
        squares = torch.stack(torch._foreach_norm(gradients)).square().sum()
        for group in groups:
            torch.distributed.all_reduce(squares, group=group)
        sums.append(squares)
    return torch.stack(sums).sum().sqrt()


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor, or what this rank holds of a distributed one."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _dimension(placement: Any) -> int | None:
    """The dimension that a placement divides; None for a replica."""
    dimension: int | None = getattr(placement, "dim", None)
    return dimension
