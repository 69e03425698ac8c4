"""Layers that ranks share: by columns, by rows, by the vocabulary (Shoeybi et al. 2019, Megatron-LM, section 3)."""

from __future__ import annotations

import torch
from llmperf_pytorch.kernels.choice import Kernels
from torch import nn
from torch.nn import functional

from llmperf_megatron_deepspeed.builtin.shards import EMBEDDING, sharded_parameter
from llmperf_megatron_deepspeed.builtin.tensor_parallel import TensorParallel


class ColumnParallel(nn.Module):
    """The weight of a projection of which each rank computes some outputs, by `TensorParallel.products`."""

    def __init__(self, name: str, inputs: int, outputs: int, ranks: TensorParallel) -> None:
        super().__init__()
        self.weight = sharded_parameter(f"{name}.weight", (outputs, inputs), 0, ranks)


class RowParallel(nn.Module):
    """A projection of which each rank has some inputs: [..., inputs / ranks] to [..., outputs] whole."""

    def __init__(self, name: str, inputs: int, outputs: int, ranks: TensorParallel) -> None:
        super().__init__()
        self._ranks = ranks
        self.weight = sharded_parameter(f"{name}.weight", (outputs, inputs), 1, ranks)

    def forward(self, part: torch.Tensor) -> torch.Tensor:
        """The sum over the ranks, of this rank's positions if the sequence is divided."""
        return self._ranks.summed(functional.linear(part, self.weight))


class VocabEmbedding(nn.Module):
    """The input embedding, of which each rank has some rows; also the output projection where the two are tied."""

    def __init__(self, vocab_size: int, hidden_size: int, ranks: TensorParallel) -> None:
        super().__init__()
        self._ranks = ranks
        self.weight = sharded_parameter(EMBEDDING, (vocab_size, hidden_size), 0, ranks)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Vectors [batch, seq_len, hidden_size] of ids [batch, seq_len]: a rank adds nothing for others' rows."""
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
        """What the logits are the product of, for a loss that computes them in parts."""
        return self._ranks.shared(states), self.weight


class RmsNorm(nn.Module):
    """RMSNorm; its weight is the same on every rank."""

    def __init__(self, name: str, width: int, eps: float, ranks: TensorParallel, kernels: Kernels) -> None:
        super().__init__()
        self._eps, self._kernels = eps, kernels
        self.weight = sharded_parameter(f"{name}.weight", (width,), None, ranks)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """The same shape and dtype."""
        return self._kernels.rms_norm(states, self.weight, self._eps)
