"""Initial weights of transformers' parameters, assembled from those that the contract defines by name and shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import llmperf
import torch
from llmperf.types import Model
from llmperf_torchkit.weights import fill_part
from torch import nn

Values = Mapping[str, torch.Tensor]
"""Initial values of whole parameters that a class of transformers sets itself, by name."""
RENAMED = {".mlp.gate.weight": ".mlp.router.weight", ".mlp.shared_experts.": ".mlp.shared_expert."}
"""Parts of transformers' names that differ between its classes, and llmperf's name of them."""
GATE_UP = "gate_up_proj"


def drawn(shape: Sequence[int]) -> bool:
    """Check whether a parameter is a matrix, or stacked ones, whose initial weights the contract defines."""
    return len(shape) in (2, 3) and min(shape) > 1


@contextmanager
def without_memory(*, all_parameters: bool) -> Iterator[None]:
    """Keep matrices, or all parameters, that are registered inside on the meta device."""
    register = nn.Module.register_parameter

    def registered(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if parameter is not None and not parameter.is_meta and (all_parameters or drawn(parameter.shape)):
            parameter = nn.Parameter(parameter.to("meta"), requires_grad=parameter.requires_grad)
        register(module, name, parameter)

    with patch.object(nn.Module, "register_parameter", registered):
        yield


@torch.no_grad()
def fill(
    name: str,
    shape: tuple[int, ...],
    part: torch.Tensor,
    ranges: Sequence[range],
    facts: Model,
    seed: int,
    own: Values,
) -> None:
    """Set `part`, which holds the `ranges` of indexes, by dimension, of a parameter of a shape.

    transformers stacks experts [experts, rows, columns], and gate and up projection in one matrix: the rows of one
    after the rows of the other. GPT-OSS has [experts, columns, rows], and rows of both by turns.
    """
    if name in own:
        part.copy_(own[name][tuple(slice(each.start, each.stop) for each in ranges)])
        return
    if facts.counted is not None:
        fill_part(name, shape, part, tuple(ranges), facts, seed)
        return
    constant = llmperf.initial_constant(name, facts)
    if constant is not None:
        part.fill_(constant)
        return
    for theirs, ours in RENAMED.items():
        name = name.replace(theirs, ours)
    if ".experts." not in name:
        if not name.endswith(f".{GATE_UP}.weight"):
            fill_part(name, shape, part, tuple(ranges), facts, seed)
            return
        matrix = _gate_and_up(name.removesuffix(f"{GATE_UP}.weight"), (shape[0], shape[1]), facts, seed)
        part.copy_(_cut(matrix, ranges))
        return
    turned = facts.family == "gpt_oss"
    rows, columns = shape[:0:-1] if turned else shape[1:]
    layer, projection = name.rsplit(".", 1)
    for place, expert in enumerate(ranges[0]):
        if projection == GATE_UP:
            matrix = _gate_and_up(f"{layer}.{expert}.", (rows, columns), facts, seed)
            matrix = matrix.view(2, rows // 2, columns).transpose(0, 1).reshape(rows, columns) if turned else matrix
        else:
            matrix = torch.empty(rows, columns)
            whole = (range(rows), range(columns))
            fill_part(f"{layer}.{expert}.{projection}.weight", (rows, columns), matrix, whole, facts, seed)
        part[place].copy_(_cut(matrix.T if turned else matrix, ranges[1:]))


def _gate_and_up(prefix: str, shape: tuple[int, int], facts: Model, seed: int) -> torch.Tensor:
    """Gate projection above up projection, float32 [rows of both, columns]."""
    half = (shape[0] // 2, shape[1])
    both = torch.empty(shape)
    for name, part in zip(("gate_proj", "up_proj"), both.chunk(2), strict=True):
        fill_part(f"{prefix}{name}.weight", half, part, (range(half[0]), range(half[1])), facts, seed)
    return both


def _cut(matrix: torch.Tensor, ranges: Sequence[range]) -> torch.Tensor:
    rows, columns = ranges
    return matrix[rows.start : rows.stop, columns.start : columns.stop]
