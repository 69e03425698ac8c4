"""Timed operations: their sizes follow from a model, from the memory, and from how fast the device is."""

from __future__ import annotations

from dataclasses import dataclass

from llmperf.accounting import attention_shapes, shared_width
from llmperf.types import Model, OperationToTime
from llmperf.types.rank_tasks import TimedKind
from llmperf.types.units import Count, NonNegative

SQUARES = (1024, 2048, 4096, 8192, 16384)
TOKENS = (4096, 2048, 1024, 512, 256, 128)
"""Rows of the matrix products and tokens of a sequence in attention that a device computes quickly enough."""
LARGEST_COPY_BYTES, SMALLEST_COPY_BYTES = 2**30, 2**26
COPIED_SHARE = 32
"""A copy takes at most this part of the memory of a rank."""
MESSAGE_BYTES = tuple(2**power for power in range(10, 29, 3))
"""Of collectives: 1 KiB to 256 MiB."""
KERNELS = 100
"""Launched in one run."""
BACKWARD = 2.5
"""FLOPs of the backward pass of fused attention / those of its forward pass: five matrix products after two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakTask:
    """Task of the ranks of `llmperf peak`."""

    model: Model
    """Model whose matrix products are timed."""
    dtypes: tuple[str, ...]
    """Precisions of products."""
    rank_memory_bytes: Count
    """Memory that one rank may use."""
    seconds: NonNegative
    """Time for the repeats of one operation."""


def square(dtype: str, size: int) -> OperationToTime:
    """The product of two square matrices."""
    return OperationToTime(kind="matmul", dtype=dtype, shape=(1, size, size, size))


def model_products(model: Model, dtype: str, tokens: int) -> list[OperationToTime]:
    """The products of a model's linear layers and of their weight gradients, each shape once."""
    hidden, mixture = model.hidden_size, model.mixture
    layers = [(outputs, inputs) for inputs, outputs in attention_shapes(model).values()]
    inners = [model.intermediate_size] if model.dense_layers else []
    if mixture is not None:
        inners += [mixture.expert_width, *filter(None, [shared_width(model)])]
    layers += [shape for inner in inners for shape in ((inner, hidden), (hidden, inner))]
    layers.append((model.vocab_size, hidden))
    shapes = [(1, tokens, outputs, inputs) for outputs, inputs in layers]
    shapes += [(1, outputs, inputs, tokens) for outputs, inputs in layers]
    return [OperationToTime(kind="matmul", dtype=dtype, shape=shape) for shape in dict.fromkeys(shapes)]


def attention(model: Model, dtype: str, tokens: int) -> OperationToTime:
    """Causal attention of one sequence, with as many key and value heads as query heads."""
    heads = model.attention_heads
    return OperationToTime(kind="attention", dtype=dtype, shape=(1, heads, tokens, model.query_width))


def moved(kind: TimedKind, size: int) -> OperationToTime:
    """A copy, a reading or a collective of so many bytes, or so many launches."""
    return OperationToTime(kind=kind, dtype="fp32", shape=(size,))


def flops(operation: OperationToTime) -> float:
    """FLOPs of a matrix product, or of causal attention without the masked half; 0 for others."""
    if operation.kind == "matmul":
        batch, rows, columns, inner = operation.shape
        return 2.0 * batch * rows * columns * inner
    if operation.kind == "attention":
        batch, heads, tokens, head_size = operation.shape
        return (1 + BACKWARD) * 2 * 2 * batch * heads * tokens * tokens * head_size / 2
    return 0.0
