"""From a model's facts to a module on the device, with weights that are the same everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from llmperf.errors import absent_name

from llmperf_pytorch.decoder.model import LanguageModel
from llmperf_pytorch.float8 import scale_projections
from llmperf_pytorch.kernels.blocks import compile_blocks
from llmperf_pytorch.kernels.choice import NONE_FUSED, Kernels
from llmperf_pytorch.precision import default_dtype, held_dtype
from llmperf_pytorch.recompute import recompute_blocks

if TYPE_CHECKING:
    from llmperf.types import RunSpec


@runtime_checkable
class HasBuffers(Protocol):
    """A module with constants that are no parameters."""

    def set_buffers(self) -> None:
        """Make them on the default device."""


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
    """The transformer blocks of a model, or of the part of it that a pipeline stage has."""
    return list(model.get_submodule("model.layers").children())


def set_buffers(model: torch.nn.Module, device: torch.device) -> None:
    """Give a model that was made without memory its constants, such as the frequencies of rotary positions."""
    with device:
        for module in model.modules():
            if isinstance(module, HasBuffers):
                module.set_buffers()


def build_model(spec: RunSpec, device: torch.device, kernels: Kernels = NONE_FUSED) -> torch.nn.Module:
    """The model on the device, in the dtype that the recipe has weights updated in, with its initial weights."""
    from llmperf_pytorch.weights import fill_weights

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
