"""From a model's facts to a module on the device, with weights that are the same everywhere, and what it recomputes.

Gradient checkpointing wraps a block's `forward`, not its call: hooks, such as those that gather sharded parameters, run
once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import llmperf
import torch
from llmperf.errors import absent_name
from llmperf_torchkit.compiled import compile_blocks
from llmperf_torchkit.precision import default_dtype, held_dtype
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from llmperf_pytorch.decoder.model import LanguageModel
from llmperf_pytorch.float8 import scale_projections
from llmperf_pytorch.kernels.choice import NONE_FUSED, Kernels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llmperf.types import Model, RunSpec, Tuning

KEPT = (
    "mm", "addmm", "bmm", "baddbmm", "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_fused_attention_overrideable",
)  # fmt: skip
"""Operations whose results `recompute = operations` keeps: matrix products and attention."""


def recompute_blocks(blocks: Iterable[torch.nn.Module], tuning: Tuning) -> None:
    """Make every `recompute_every`-th block, from the first on, compute again what the tuning says."""
    if not tuning.gradient_checkpointing:
        return
    contexts = partial(create_selective_checkpoint_contexts, _policy)
    kept: dict[str, Any] = {"context_fn": contexts} if tuning.recompute == "operations" else {}
    for place, block in enumerate(blocks):
        if place % tuning.recompute_every == 0:
            block.forward = partial(_recomputed, block, block.forward, kept)


def _recomputed(
    block: torch.nn.Module, forward: Callable[..., Any], kept: dict[str, Any], *inputs: Any, **named: Any
) -> Any:
    if not (block.training and torch.is_grad_enabled()):
        return forward(*inputs, **named)
    return checkpoint(forward, *inputs, use_reentrant=False, **kept, **named)


def _policy(context: Any, operation: Any, *inputs: Any, **named: Any) -> CheckpointPolicy:
    keep = operation in _kept_operations() or "flex_attention" in str(operation)
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE


@cache
def _kept_operations() -> frozenset[Any]:
    """KEPT in this version of torch."""
    packets = (getattr(torch.ops.aten, name, None) for name in KEPT)
    return frozenset(packet.default for packet in packets if packet is not None)


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


def construct_model(spec: RunSpec, kernels: Kernels = NONE_FUSED) -> torch.nn.Module:
    """The model without meaningful weights, on the default device, in the default dtype.

    `forward(ids)` gives logits [batch, seq_len, vocab_size] of int64 ids [batch, seq_len]; `forward(ids, labels)` gives
    the mean cross entropy.
    """
    model = LanguageModel(spec.model, spec.tuning.attention, kernels, spec.contract)
    scale_projections(blocks_of(model), spec)
    if kernels.compiles_blocks:
        compile_blocks(blocks_of(model))
    recompute_blocks(blocks_of(model), spec.tuning)
    return model


def blocks_of(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The transformer blocks of a model: `model.layers`, in other classes of transformers their longest list."""
    lists = {name: part for name, part in model.named_modules() if isinstance(part, torch.nn.ModuleList)}
    return list(lists.get("model.layers") or max(lists.values(), key=len))


def set_buffers(model: torch.nn.Module, device: torch.device) -> None:
    """Give a model that was made without memory its constants, such as the frequencies of rotary positions."""
    with device:
        for module in model.modules():
            if (make := getattr(module, "set_buffers", None)) is not None:
                make()


def build_model(spec: RunSpec, device: torch.device, kernels: Kernels = NONE_FUSED) -> torch.nn.Module:
    """The model on the device, in the dtype that the recipe has weights updated in, with its initial weights."""
    with device, default_dtype(held_dtype(spec.contract.precision)):
        model = construct_model(spec, kernels)
    fill_weights(model, spec.model, spec.contract.seed)
    return model.train()


_MOVED = {
    "DTYPES": "llmperf_pytorch.rest_dtype",
    "set_matmul_precision": "llmperf_pytorch.set_matmul_precision",
}
"""Replacements of the names that generated frameworks once imported from here."""


def __getattr__(name: str) -> Any:
    raise absent_name(__name__, name, _MOVED)
