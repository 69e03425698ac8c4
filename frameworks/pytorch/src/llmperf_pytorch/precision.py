"""Precision recipes in torch: dtypes of held and computed values, and a report of what ran."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import llmperf
import torch

if TYPE_CHECKING:
    from llmperf.types import RunSpec

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
MOMENTS = ("exp_avg", "exp_avg_sq")


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


def ran_precisions(model: torch.nn.Module, optimizer: torch.optim.Optimizer, spec: RunSpec) -> Mapping[str, str]:
    """For `Trainer.precisions`: as the modules, weights and states are after the last step."""
    from llmperf_pytorch.float8 import projections_text

    recipe = llmperf.precision_recipe(spec.contract.precision)
    products: dict[str, str] = {"products": recipe.rest}
    if recipe.mixed:
        products = {"projections of blocks": projections_text(model, spec), "other products": recipe.rest}
    if recipe.scaling == "loss":
        products["products"] += ", loss scaled"
    updated = [weight for group in optimizer.param_groups for weight in group["params"]]
    moments = [state[name] for state in optimizer.state.values() for name in MOMENTS if name in state]
    held = {"weights": model.parameters(), "updated weights": updated, "optimizer states": moments}
    named = {name: _named(tensors) for name, tensors in held.items()}
    return {**products, **{name: dtypes for name, dtypes in named.items() if dtypes}}


def _named(tensors: Iterable[torch.Tensor]) -> str:
    dtypes = {tensor.dtype for tensor in tensors}
    return ", ".join(sorted(NAMES.get(dtype, str(dtype)) for dtype in dtypes))
