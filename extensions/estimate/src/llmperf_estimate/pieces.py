"""Single operations by formulas: matrix products, what only moves memory, projections with their casts to fp8."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.accounting import precision_recipe, products_dtype
from llmperf.types.tracing import OperationKind, Phase, TracedOperation

from llmperf_estimate.rank_sizes import RankSizes

FP8_CASTS = {"separate": (33, 9), "tensorwise": (5, 2), "rowwise": (3, 1), "blockwise": (3, 1)}
"""Bytes for each element of a cast from 16 bits to fp8, and its kernels, by what makes them.

Separate operations of torchao 0.18: abs (2 + 2) and max (2), then in float32 a cast (2 + 4), product (4 + 4), clamp
(4 + 4) and the cast to fp8 (4 + 1): 33. Compiled: one pass for the largest value of the tensor (2) and
one that scales (2 + 1); with scales for rows, or for blocks in kernels of their own, a single pass.
"""


def compute_dtype(sizes: RankSizes) -> str:
    """Dtype of activations, and of products outside the projections of the blocks."""
    return precision_recipe(sizes.plan.spec.contract.precision).rest


def projection_dtype(sizes: RankSizes) -> str:
    """Dtype of the projections of the blocks."""
    return products_dtype(sizes.plan.spec.contract)


def product(
    sizes: RankSizes, phase: Phase, shape: tuple[int, int, int, int], times: int, name: str = "matmul", dtype: str = ""
) -> TracedOperation:
    """Matrix products of (batch, rows, columns, inner); in `compute_dtype` unless `dtype` says otherwise."""
    batch, rows, columns, inner = shape
    elements = batch * (rows * inner + inner * columns + rows * columns)
    return TracedOperation(
        name=name,
        kind="matmul",
        phase=phase,
        dtype=dtype or compute_dtype(sizes),
        flops=2.0 * batch * rows * columns * inner,
        bytes=sizes.compute_bytes * elements,
        shape=shape,
        per_micro_batch=times,
    )


def moves(
    sizes: RankSizes, name: str, kind: OperationKind, phase: Phase, moved: int, times: int, kernels: int = 1
) -> TracedOperation:
    """Operations that read and write `moved` bytes each."""
    return TracedOperation(
        name=name,
        kind=kind,
        phase=phase,
        dtype=compute_dtype(sizes),
        flops=0.0,
        bytes=moved,
        kernels=kernels,
        per_micro_batch=times,
    )


def linear(
    sizes: RankSizes, outputs: int, inputs: int, times: int, repeated: int, *, of_block: bool = True
) -> Iterator[TracedOperation]:
    """A projection `times` times in a forward pass: its product, what is repeated of it, and its gradients."""
    tokens, dtype = sizes.tokens, projection_dtype(sizes) if of_block else compute_dtype(sizes)
    yield from casts_to_fp8(sizes, (outputs, inputs), times if of_block else 0, repeated)
    yield product(sizes, "forward", (1, tokens, outputs, inputs), times, dtype=dtype)
    if repeated:
        yield product(sizes, "backward", (1, tokens, outputs, inputs), repeated, dtype=dtype)
    yield product(sizes, "backward", (1, tokens, inputs, outputs), times, "matmul, gradient of the input", dtype)
    if not sizes.frozen:
        name = "matmul, gradient of the weights"
        yield product(sizes, "backward", (1, outputs, inputs, tokens), times, name, dtype)


def casts_to_fp8(sizes: RankSizes, shape: tuple[int, int], times: int, repeated: int) -> Iterator[TracedOperation]:
    """Casts of a projection's operands in an fp8 recipe: forward of input and weights, backward of both again and of
    the gradient for each of its two products. A compiler casts what several products read once, here the gradient."""
    recipe = precision_recipe(sizes.plan.spec.contract.precision)
    if recipe.products != "fp8":
        return
    compiles = sizes.plan.spec.tuning.compile
    bytes_each, kernels = FP8_CASTS[recipe.scaling if compiles or recipe.scaling == "blockwise" else "separate"]
    weights, given = shape[0] * shape[1], sizes.tokens * shape[1]
    gradient = sizes.tokens * shape[0] * (1 if compiles and recipe.scaling == "tensorwise" else 2)
    forms: tuple[tuple[Phase, int, int], ...] = (
        ("forward", given + weights, times),
        ("backward", given + weights, repeated),
        ("backward", given + weights + gradient, times),
    )
    for phase, elements, count in forms:
        yield moves(sizes, "casts to fp8", "copy", phase, bytes_each * elements, count, 2 * kernels)
