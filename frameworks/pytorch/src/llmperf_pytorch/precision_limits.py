"""Precision recipes that the torch frameworks cannot train with, checked while planning; imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import llmperf
from llmperf.types import Problem

from llmperf_pytorch.compilers import elsewhere

if TYPE_CHECKING:
    from llmperf.types import Model, Precision, Probe, RunSpec

RECIPES: tuple[Precision, ...] = (
    "fp32",
    "tf32",
    "bf16",
    "bf16_pure",
    "fp16",
    "fp8_tensorwise",
    "fp8_rowwise",
    "fp8_blockwise",
)
"""Those of frameworks that train all weights."""
BLOCKWISE_ON = (9, 0)
"""The one compute capability that torchao's kernels run on (prototype/blockwise_fp8_training, 0.18)."""
NO_CAPABILITY = (0, 0)
"""Compute capability of devices that are not NVIDIA's."""
MULTIPLES = {"tensorwise": 16, "rowwise": 16, "blockwise": 128}
"""Required divisors of the widths of weights for products in fp8 (torch's scaled_mm; a block)."""


def recipe_problems(framework: str, spec: RunSpec, probe: Probe) -> Iterator[Problem]:
    """Layouts, models and machines on which a recipe cannot be trained by."""
    recipe, tuning = llmperf.precision_recipe(spec.contract.precision), spec.tuning

    def problem(reason: str) -> Problem:
        message = f"{recipe.name}: {reason}; nearest: --set precision=bf16"
        return Problem(code=f"{framework}.precision", where="contract.precision", message=message)

    if recipe.name == "bf16_pure":
        if tuning.pipeline_parallel > 1:
            yield problem("pipeline stages hold float32 weights: expected pipeline_parallel 1")
        if tuning.accumulation_dtype == "fp32":
            yield problem("gradients are added up in bf16: expected accumulation_dtype auto")
    if recipe.products != "fp8":
        return
    if tuning.tensor_parallel > 1 or tuning.pipeline_parallel > 1:
        yield problem("projections that ranks divide have no fp8: expected tensor_parallel and pipeline_parallel 1")
    if spec.model.mixture is not None:
        yield problem(f"experts are not computed in fp8, and {spec.model.name} is a mixture: expected a dense model")
    multiple = MULTIPLES[recipe.scaling]
    odd = [width for width in projection_widths(spec.model) if width % multiple]
    if odd and not tuning.emulate_precision:
        yield problem(f"widths must be multiples of {multiple}, and {spec.model.name} has {odd[0]}")
    if recipe.scaling == "blockwise" and not tuning.emulate_precision and capability(probe) != BLOCKWISE_ON:
        yield problem("torchao's blockwise kernels run on compute capability 9.0 only: expected fp8_rowwise here")
    by_torchao = recipe.scaling != "blockwise" or not tuning.emulate_precision
    if by_torchao and not elsewhere(spec, probe) and find_spec("torchao") is None:
        yield problem("needs torchao, which is not installed (pip install llmperf-pytorch[fp8])")


def capability(probe: Probe) -> tuple[int, ...]:
    """CUDA's compute capability of the devices; (0, 0) for devices without one."""
    text = probe.devices[0].details.get("compute_capability", "0.0")
    return tuple(int(part) for part in text.split(".") if part.isdecimal())


def projection_widths(model: Model) -> tuple[int, ...]:
    """Rows and columns of the projections of dense blocks."""
    heads, keys = model.attention_heads, model.kv_heads
    attention: tuple[int, ...] = (heads * model.query_width, keys * model.query_width, keys * model.value_width)
    if model.latent is not None:
        latent = model.latent
        ranks = (latent.q_rank or model.hidden_size, latent.kv_rank, latent.kv_rank + latent.rope_width)
        attention = (heads * model.query_width, heads * (latent.nope_width + latent.value_width), *ranks)
    return (model.hidden_size, *attention, heads * model.value_width, model.intermediate_size)
