"""Layers that ranks share: by columns, by rows, by the vocabulary (Shoeybi et al. 2019, Megatron-LM, section 3)."""

from __future__ import annotations

import torch
from llmperf.types import Model
from llmperf_pytorch.kernels.choice import Kernels
from torch import nn
from torch.nn import functional

from llmperf_megatron_deepspeed.builtin.shards import EMBEDDING, sharded_parameter
from llmperf_megatron_deepspeed.builtin.tensor_parallel import TensorParallel


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
