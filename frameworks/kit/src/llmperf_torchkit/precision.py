"""Precision recipes in torch: dtypes of held and computed values; autocast."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import llmperf
import torch

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def rest_dtype(precision: str) -> torch.dtype:
    """Dtype of activations, and of products that the recipe does not compute in fp8."""
    return DTYPES[llmperf.precision_recipe(precision).rest]


def held_dtype(precision: str) -> torch.dtype:
    """Dtype of the weights that autocast and FSDP2 cast: the master weights, where a recipe has them."""
    recipe = llmperf.precision_recipe(precision)
    return DTYPES[recipe.master_weights or recipe.weights]


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Make new parameters in a dtype, so that a large model is never there in float32 first."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def set_matmul_precision(precision: str) -> None:
    """Allow float32 products to be computed in TF32, if the case says so."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")


def compute_dtype(states: torch.Tensor) -> torch.dtype:
    """Dtype of the output of matrix products of hidden states, which under autocast is not their own."""
    kind = states.device.type
    return torch.get_autocast_dtype(kind) if _enabled(kind) else states.dtype


def without_autocast(states: torch.Tensor) -> AbstractContextManager[object]:
    """Operations in the dtypes of their inputs."""
    kind = states.device.type
    return torch.autocast(kind, enabled=False) if _enabled(kind) else nullcontext()


def _enabled(kind: str) -> bool:
    possible = torch.amp.is_autocast_available(kind)  # the meta device, for one, knows nothing of it
    return possible and torch.is_autocast_enabled(kind)
