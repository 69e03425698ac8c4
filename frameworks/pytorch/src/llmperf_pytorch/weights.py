"""Initial weights by name: the same numbers in every framework, on every device, for every sharding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llmperf
import torch

if TYPE_CHECKING:
    from llmperf.types import Model

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
    """Norms, biases and sinks begin at a constant; all others are drawn with the model's standard deviation."""
    if (constant := llmperf.initial_constant(name, facts)) is not None:
        parameter.fill_(constant)
        return
    flat, shape = parameter.view(-1), tuple(parameter.shape)
    for start in range(0, flat.numel(), CHUNK):
        stop = min(start + CHUNK, flat.numel())
        drawn = llmperf.initial_normal(seed, name, shape, facts.initializer_std, start, stop)
        flat[start:stop].copy_(torch.from_numpy(drawn))
