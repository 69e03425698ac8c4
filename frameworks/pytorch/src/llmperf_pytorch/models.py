"""From a model's facts to a module on the device, with weights that are the same everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch

from llmperf_pytorch.decoder.model import LanguageModel
from llmperf_pytorch.kernels.blocks import compile_blocks
from llmperf_pytorch.kernels.choice import NONE_FUSED, Kernels
from llmperf_pytorch.recompute import recompute_blocks

if TYPE_CHECKING:
    from llmperf.types import RunSpec

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@runtime_checkable
class HasBuffers(Protocol):
    """A module with constants that are no parameters."""

    def set_buffers(self) -> None:
        """Make them on the default device."""
        ...


def construct_model(spec: RunSpec, kernels: Kernels = NONE_FUSED) -> torch.nn.Module:
    """The model without meaningful weights, on the default device, in float32.

    `forward(ids)` gives logits [batch, seq_len, vocab_size] of int64 ids [batch, seq_len]; `forward(ids, labels)` gives
    the mean cross entropy.
    """
    model = LanguageModel(spec.model, spec.tuning.attention, kernels, spec.contract)
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


@contextmanager
def default_dtype(precision: str) -> Iterator[None]:
    """Make new parameters in a precision, so that a large model is never there in float32 first."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(DTYPES[precision])
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def build_model(spec: RunSpec, device: torch.device, kernels: Kernels = NONE_FUSED) -> torch.nn.Module:
    """The model on the device, in float32, with its initial weights."""
    from llmperf_pytorch.weights import fill_weights

    with device:
        model = construct_model(spec, kernels)
    fill_weights(model, spec.model, spec.contract.seed)
    return model.train()


def set_matmul_precision(precision: str) -> None:
    """Whether float32 products may be computed in TF32: only where the case says so."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
