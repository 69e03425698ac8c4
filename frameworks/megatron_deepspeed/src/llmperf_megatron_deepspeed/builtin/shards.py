"""Parameters of which each rank has its share: the same slice of the same whole, whatever the layout."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import llmperf
import torch
from llmperf_pytorch.weights import CHUNK

from llmperf_megatron_deepspeed.builtin.tensor_parallel import TensorParallel

if TYPE_CHECKING:
    from llmperf.types import Model

EMBEDDING = "model.embed_tokens.weight"


@dataclass(frozen=True)
class Shard:
    """Part of a whole parameter that a rank holds."""

    name: str
    """As Hugging Face names the whole."""
    shape: tuple[int, ...]
    """Shape of the whole parameter."""
    dim: int | None
    """The dimension that is shared out in equal contiguous parts; None: every rank has all of it."""
    ranks: TensorParallel
    """Among whom."""
    of_heads: bool = False
    """A rank's gradient of a parameter that it has whole is that of its own heads alone."""

    @property
    def local_shape(self) -> tuple[int, ...]:
        """Shape of this rank's part."""
        parts = [self.ranks.size if axis == self.dim else 1 for axis in range(len(self.shape))]
        return tuple(size // part for size, part in zip(self.shape, parts, strict=True))


def sharded_parameter(
    name: str, shape: tuple[int, ...], dim: int | None, ranks: TensorParallel, *, of_heads: bool = False
) -> torch.nn.Parameter:
    """A parameter without meaningful values, marked so that DeepSpeed's gradient norm counts each element once."""
    shard = Shard(name, shape, dim, ranks, of_heads)
    parameter = torch.nn.Parameter(torch.empty(shard.local_shape))
    parameter.shard = shard
    parameter.model_parallel = parameter.tensor_model_parallel = dim is not None and ranks.size > 1
    return parameter


def count_whole(module: torch.nn.Module, *, first_stage: bool) -> int:
    """Parameters of a pipeline stage, each with its whole size; a tied embedding counts on the first stage alone."""
    shards: list[Shard] = [parameter.shard for parameter in module.parameters()]
    return sum(math.prod(shard.shape) for shard in shards if first_stage or shard.name != EMBEDDING)


@torch.no_grad()
def fill_shard(parameter: torch.nn.Parameter, facts: Model, seed: int) -> None:
    """Set a rank's part to the initial value of the whole, drawing no more than it must."""
    shard: Shard = parameter.shard
    if (constant := llmperf.initial_constant(shard.name, facts)) is not None:
        parameter.fill_(constant)
    elif shard.dim == 1:
        _fill_columns(parameter, shard, facts.initializer_std, seed)
    else:
        _fill_rows(parameter, shard, facts.initializer_std, seed)


def _fill_rows(parameter: torch.nn.Parameter, shard: Shard, std: float, seed: int) -> None:
    flat, first = parameter.view(-1), shard.ranks.rank * parameter.numel() if shard.dim == 0 else 0
    for start in range(0, flat.numel(), CHUNK):
        stop = min(start + CHUNK, flat.numel())
        drawn = llmperf.initial_normal(seed, shard.name, shard.shape, std, first + start, first + stop)
        flat[start:stop].copy_(torch.from_numpy(drawn))


def _fill_columns(parameter: torch.nn.Parameter, shard: Shard, std: float, seed: int) -> None:
    rows, columns = shard.shape
    mine = slice(shard.ranks.rank * parameter.shape[1], (shard.ranks.rank + 1) * parameter.shape[1])
    each = max(1, CHUNK // columns)
    for row in range(0, rows, each):
        last = min(row + each, rows)
        drawn = llmperf.initial_normal(seed, shard.name, shard.shape, std, row * columns, last * columns)
        parameter[row:last].copy_(torch.from_numpy(drawn).view(last - row, columns)[:, mine])
