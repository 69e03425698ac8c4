"""Parameters of which each rank has its share, and layers of them (Shoeybi et al. 2019, Megatron-LM, section 3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import llmperf
import torch
import torch.distributed
from llmperf.types import Model
from llmperf_pytorch.kernels.choice import Kernels
from llmperf_torchkit.weights import CHUNK
from torch import nn
from torch.nn import functional

from llmperf_megatron_deepspeed.builtin.tensor_parallel import TensorParallel

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
        rows, columns = shard.shape
        mine = slice(shard.ranks.rank * parameter.shape[1], (shard.ranks.rank + 1) * parameter.shape[1])
        each = max(1, CHUNK // columns)
        for row in range(0, rows, each):
            last = min(row + each, rows)
            drawn = llmperf.initial_normal(
                seed, shard.name, shard.shape, facts.initializer_std, row * columns, last * columns
            )
            parameter[row:last].copy_(torch.from_numpy(drawn).view(last - row, columns)[:, mine])
    else:
        flat, first = parameter.view(-1), shard.ranks.rank * parameter.numel() if shard.dim == 0 else 0
        for start in range(0, flat.numel(), CHUNK):
            stop = min(start + CHUNK, flat.numel())
            drawn = llmperf.initial_normal(
                seed, shard.name, shard.shape, facts.initializer_std, first + start, first + stop
            )
            flat[start:stop].copy_(torch.from_numpy(drawn))


def sum_shared_gradients(engine: Any, ranks: TensorParallel) -> None:
    """Have DeepSpeed's pipeline engine sum them over the ranks in each step, before data-parallel ranks do.

    Each rank has the gradients of its own heads in norms of queries and keys, and those of its own positions in all
    such weights if the sequence is divided.
    """
    whole = [parameter for parameter in engine.module.parameters() if parameter.shard.dim is None]
    shared = [parameter for parameter in whole if ranks.sequence or parameter.shard.of_heads]
    for name in ("allreduce_gradients", "_bf16_reduce_grads"):  # the latter with float32 accumulators
        if shared and hasattr(engine, name):
            setattr(engine, name, _after_sum(getattr(engine, name), shared, ranks))


def _after_sum(
    reduce: Callable[..., Any], shared: list[torch.nn.Parameter], ranks: TensorParallel
) -> Callable[..., Any]:
    def sum_and_reduce(*arguments: Any, **named: Any) -> Any:
        gradients = [_gradient(parameter) for parameter in shared]
        together = torch.cat([gradient.flatten().float() for gradient in gradients])
        torch.distributed.all_reduce(together, group=ranks.group)
        parts = together.split([gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))
        return reduce(*arguments, **named)

    return sum_and_reduce


def _gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    """Where DeepSpeed accumulates: an accumulator of its own, or `grad`."""
    for name in ("_hp_grad", "grad_accum"):
        accumulator: torch.Tensor | None = getattr(parameter, name, None)
        if accumulator is not None:
            return accumulator
    assert parameter.grad is not None  # each rank's positions use all of its norms
    return parameter.grad


class ColumnParallel(nn.Module):
    """Weight and bias of a projection of which each rank computes some outputs, by `TensorParallel.projected`."""

    def __init__(self, name: str, inputs: int, outputs: int, ranks: TensorParallel, *, bias: bool = False) -> None:
        super().__init__()
        self.weight = sharded_parameter(f"{name}.weight", (outputs, inputs), 0, ranks)
        self.bias = sharded_parameter(f"{name}.bias", (outputs,), 0, ranks) if bias else None


class RowParallel(nn.Module):
    """A projection of which each rank has some inputs and the whole bias: [..., inputs / ranks] to [..., outputs]."""

    def __init__(self, name: str, inputs: int, outputs: int, ranks: TensorParallel, *, bias: bool = False) -> None:
        super().__init__()
        self._ranks = ranks
        self.weight = sharded_parameter(f"{name}.weight", (outputs, inputs), 1, ranks)
        self.bias = sharded_parameter(f"{name}.bias", (outputs,), None, ranks) if bias else None

    def forward(self, part: torch.Tensor) -> torch.Tensor:
        """The sum over the ranks, of this rank's positions if the sequence is divided."""
        output = self._ranks.summed(functional.linear(part, self.weight))
        return output if self.bias is None else output + self.bias


class VocabEmbedding(nn.Module):
    """The input embedding, of which each rank has some rows; also the output projection where the two are tied."""

    def __init__(self, facts: Model, ranks: TensorParallel) -> None:
        super().__init__()
        self._ranks, self._scale = ranks, facts.embedding_scale
        self.weight = sharded_parameter(EMBEDDING, (facts.vocab_size, facts.hidden_size), 0, ranks)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Vectors [batch, seq_len, hidden_size] of ids [batch, seq_len], scaled where the model does."""
        vectors = self._looked_up(ids)
        return vectors if self._scale == 1 else vectors * self._scale

    def _looked_up(self, ids: torch.Tensor) -> torch.Tensor:
        """A rank adds nothing for others' rows."""
        if self._ranks.size == 1:
            return functional.embedding(ids, self.weight)
        rows = self.weight.shape[0]
        here = ids - self._ranks.rank * rows
        absent = (here < 0) | (here >= rows)
        vectors = functional.embedding(here.masked_fill(absent, 0), self.weight)
        return self._ranks.summed(vectors.masked_fill(absent.unsqueeze(-1), 0.0))

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """This rank's share [batch, seq_len, vocab_size / ranks] of the tied output projection."""
        return self._ranks.products(states, self.weight)[0]

    def head(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Factors of the logits, for a loss that computes them in parts."""
        return self._ranks.shared(states), self.weight


class RmsNorm(nn.Module):
    """RMSNorm; its weight is the same on every rank. `of_heads`: of queries or keys, which the ranks share."""

    def __init__(
        self,
        name: str,
        facts: Model,
        ranks: TensorParallel,
        kernels: Kernels,
        *,
        width: int | None = None,
        of_heads: bool = False,
    ) -> None:
        super().__init__()
        self._eps, self._offset, self._kernels = facts.norm_eps, facts.norm_offset, kernels
        size = facts.hidden_size if width is None else width
        self.weight = sharded_parameter(f"{name}.weight", (size,), None, ranks, of_heads=of_heads)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """The same shape and dtype."""
        return self._kernels.rms_norm(states, self.weight, self._eps, offset=self._offset)
