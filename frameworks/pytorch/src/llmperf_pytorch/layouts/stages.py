"""The parts of a model that one rank of a pipeline holds."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from llmperf_pytorch.layouts.tensor_parallel import whole
from llmperf_pytorch.losses import mean_cross_entropy
from llmperf_pytorch.recompute import recompute_blocks

if TYPE_CHECKING:
    from llmperf.types import RunSpec


class Stage(nn.Module):
    """Some blocks of a model, under their names in the whole model; the first stage embeds, the last has head and loss.

    `forward(ids or hidden, labels)` gives hidden states [batch, seq_len, width], on the last stage the mean loss [1].
    """

    def __init__(self, model: nn.Module, spec: RunSpec, index: int, stages: int, autocast: Autocast) -> None:
        super().__init__()
        each = spec.model.layers // stages
        self.first, self.last = index == 0, index == stages - 1
        self.model = part_of(model.get_submodule("model"), range(index * each, (index + 1) * each))
        self.lm_head = model.get_submodule("lm_head") if self.last else None
        if not self.first:
            self.model.embed_tokens = None
        if not self.last:
            self.model.norm = None
        self._autocast = autocast
        self._seq_len = spec.contract.seq_len  # of a whole sequence: sequence parallelism divides hidden states
        recompute_blocks(self.model.layers.children(), spec.tuning)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Labels [batch, seq_len] are for the last stage only."""
        with self._autocast():
            hidden = self.model.embed(inputs) if self.first else inputs
            hidden = self.model.run(hidden, self._seq_len)
            if not self.last:
                return hidden
            assert self.lm_head is not None
            logits = self.lm_head(self.model.norm(hidden))
        assert labels is not None
        return whole(mean_cross_entropy(logits, labels)).reshape(1)


Autocast = Callable[[], AbstractContextManager[object]]


def part_of(decoder: nn.Module, places: Sequence[int]) -> Any:
    """A decoder with some of its blocks, which it shares with the whole one."""
    part: Any = copy.copy(decoder)
    part._modules, part._buffers = dict(decoder._modules), dict(decoder._buffers)
    blocks = list(decoder.get_submodule("layers").children())
    part.layers = nn.ModuleDict({str(place): blocks[place] for place in places})
    return part
