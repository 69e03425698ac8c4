"""Precision recipes in torch: dtypes of held and computed values; autocast; names of products in fp8; AdamW."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import llmperf
import torch
from llmperf import decays
from llmperf.errors import RunFailed
from llmperf.types import Optimizer, RunSpec

FUSED_DEVICES = ("cuda", "cpu")


Named = Iterable[tuple[str, torch.Tensor]]
"""Parameters with their names."""


def parameter_groups(model: torch.nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices decay, norms, biases and sinks do not; frozen parameters are in no group, and no group is empty."""
    return groups_of(model.named_parameters(), weight_decay)


def groups_of(named: Named, weight_decay: float) -> list[dict[str, Any]]:
    """The same of parameters, or of the parts of them that a rank holds."""
    trained = [(name, parameter) for name, parameter in named if parameter.requires_grad]
    matrices = [parameter for name, parameter in trained if decays(name)]
    others = [parameter for name, parameter in trained if not decays(name)]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def adamw(model: torch.nn.Module, optimizer: Optimizer, device: torch.device) -> torch.optim.AdamW:
    """torch's AdamW, fused where torch has it for the device."""
    return adamw_of(model.named_parameters(), optimizer, device)


def adamw_of(named: Named, optimizer: Optimizer, device: torch.device) -> torch.optim.AdamW:
    """The same of parameters, or of the parts of them that a rank holds."""
    return torch.optim.AdamW(
        groups_of(named, optimizer.weight_decay),
        lr=optimizer.lr,
        betas=(optimizer.beta1, optimizer.beta2),
        eps=optimizer.eps,
        fused=True if device.type in FUSED_DEVICES else None,
    )


def adamw_kernel(optimizer: torch.optim.Optimizer) -> str:
    """By what an AdamW updates, for the result: one kernel for many parameters, or torch's operations on each."""
    if not isinstance(optimizer, torch.optim.AdamW):
        return type(optimizer).__name__
    fused = all(group.get("fused") for group in optimizer.param_groups)
    return "torch.optim.AdamW, fused" if fused else "torch.optim.AdamW, separate operations"


def set_learning_rate(groups: Iterable[dict[str, Any]], rate: float) -> None:
    """For the next step, in all groups."""
    for group in groups:
        group["lr"] = rate


BLOCK = 128
"""Rows and columns of a block of weights in fp8, and length of a block of activations."""
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


def projections_text(model: torch.nn.Module, spec: RunSpec) -> str:
    """Kernels of the projections in fp8, such as `fp8 e4m3, rowwise (torchao 0.18.0, emulated)`."""
    recipe = llmperf.precision_recipe(spec.contract.precision)
    kinds = {type(module).__name__ for module in model.modules()}
    if not kinds & {"Float8Linear", "BlockwiseProjection"}:
        return recipe.rest
    emulated = ", emulated" if spec.tuning.emulate_precision else ""
    if recipe.scaling == "blockwise":
        by = "llmperf" if spec.tuning.emulate_precision else f"torchao {torchao().__version__}"
        return f"fp8 e4m3, blockwise 1 x {BLOCK} and {BLOCK} x {BLOCK} ({by}{emulated})"
    formats = "e4m3, gradients of outputs e5m2" if recipe.scaling == "tensorwise" else "e4m3"
    return f"fp8 {formats}, {recipe.scaling} (torchao {torchao().__version__}{emulated})"


def torchao() -> Any:
    """The package; RunFailed where it cannot be imported."""
    try:
        import torchao as package
        import torchao.float8
    except ImportError as error:
        message = f"fp8 needs torchao, which cannot be imported: {error}; pip install llmperf-pytorch[fp8]"
        raise RunFailed(message) from error
    return package
