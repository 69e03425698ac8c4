"""Initial weights by name: the same numbers in every framework, for every layout."""

from __future__ import annotations

import math
from collections.abc import Iterator

import llmperf
import numpy as np
import paddle
from llmperf import is_norm
from llmperf.types import Model
from paddle import nn
from paddle.distributed.collective import Group

from llmperf_paddle.decoder import Unit
from llmperf_paddle.layers import Layers

INPUTS_DIVIDED = ("o_proj.weight", "down_proj.weight")
WHOLE_BIASES = ("o_proj.bias", "down_proj.bias")
ROWS_DIVIDED = ("embed_tokens.weight",)


def named(model: nn.Layer) -> Iterator[tuple[str, paddle.Tensor]]:
    """This rank's parameters by their names in Hugging Face checkpoints."""
    for unit in model.sublayers(include_self=True):
        if isinstance(unit, Unit):
            for name, parameter in unit.named_parameters():
                yield unit.canonical(name), parameter


def count_parameters(model: nn.Layer, layers: Layers, pipeline: Group | None) -> int:
    """Parameters of the whole model: this rank's with their whole sizes, added up over the stages of a pipeline."""
    # each rank has all of norms and of biases of products with divided inputs
    sizes = (
        math.prod(parameter.shape) * (1 if is_norm(name) or name.endswith(WHOLE_BIASES) else layers.parts)
        for name, parameter in named(model)
    )
    own = sum(sizes)
    if pipeline is None or pipeline.nranks == 1:
        return own
    total = paddle.to_tensor([own], dtype="int64")
    paddle.distributed.all_reduce(total, group=pipeline)
    return int(total.item())


def fill_weights(model: nn.Layer, facts: Model, layers: Layers, seed: int) -> None:
    """Set every parameter that this rank has."""
    for name, parameter in named(model):
        shape, constant = tuple(parameter.shape), llmperf.initial_constant(name, facts)
        values = _part(name, shape, facts, layers, seed) if constant is None else np.full(shape, constant, np.float32)
        parameter.set_value(paddle.to_tensor(values).astype(parameter.dtype))


def _part(name: str, shape: tuple[int, ...], facts: Model, layers: Layers, seed: int) -> np.ndarray:
    """This rank's part of a parameter whose whole is drawn as checkpoints have it, [out, in]."""
    if name.endswith(ROWS_DIVIDED):
        whole = (shape[0] * layers.parts, shape[1])
        start = layers.part * shape[0] * shape[1]
        return _draw(seed, name, whole, facts, start, shape[0] * shape[1]).reshape(shape)
    if name.endswith(INPUTS_DIVIDED):
        inputs, outputs = shape[0] * layers.parts, shape[1]
        drawn = llmperf.initial_normal(seed, name, (outputs, inputs), facts.initializer_std)
        return np.ascontiguousarray(np.split(drawn, layers.parts, axis=1)[layers.part].T)
    inputs, outputs = shape[0], shape[1] * layers.parts
    start = layers.part * shape[0] * shape[1]
    rows = _draw(seed, name, (outputs, inputs), facts, start, shape[0] * shape[1])
    return np.ascontiguousarray(rows.reshape(shape[1], inputs).T)


def _draw(seed: int, name: str, whole: tuple[int, int], facts: Model, start: int, size: int) -> np.ndarray:
    return llmperf.initial_normal(seed, name, whole, facts.initializer_std, start, start + size).reshape(-1)
