"""Seconds of one operation by the roofline model (Williams et al. 2009): limited by FLOPs, bytes or its launch."""

from __future__ import annotations

import math
from collections.abc import Iterable

from llmperf.types.rates import DeviceRates
from llmperf.types.tracing import StepTrace, TracedOperation

TILE = 128
"""Rows and columns of the tiles into which kernels cut a matrix product. A partial tile takes as long as a whole."""

FLOATING = ("bf16", "fp16", "tf32", "fp32")
"""The dtypes of rates. Indices and masks of attention are limited by the memory."""


def operation_seconds(operation: TracedOperation, rates: DeviceRates) -> float:
    """Seconds of one operation with all its kernels; ValueError if the device has no rate for its dtype."""
    launch = rates.launch_seconds * operation.kernels
    traffic = operation.bytes / rates.memory_bytes_per_second if operation.bytes else 0.0
    return max(launch, traffic, _compute_seconds(operation, rates))


def _compute_seconds(operation: TracedOperation, rates: DeviceRates) -> float:
    if not operation.flops or (operation.kind != "matmul" and operation.dtype not in FLOATING):
        return 0.0
    if operation.kind == "matmul":
        measured = _measured(operation, rates)
        if measured is not None:
            return operation.flops / measured
        return operation.flops * tile_waste(operation.shape) / _rate(operation, rates)
    if operation.kind == "attention":
        return operation.flops / _rate(operation, rates)
    return 0.0


def tile_waste(shape: tuple[int, ...]) -> float:
    """How much more a matrix product computes because tiles are whole: at least 1. `shape` as in a trace."""
    if len(shape) != 4 or not all(shape):
        return 1.0
    _, rows, columns, _ = shape
    return math.ceil(rows / TILE) * math.ceil(columns / TILE) * TILE**2 / (rows * columns)


def _measured(operation: TracedOperation, rates: DeviceRates) -> float | None:
    """The measured rate of a product of the same size, whichever operand is called rows."""
    size = _size(operation.shape)
    rated = (
        product.flops_per_second
        for product in rates.matmuls
        if product.dtype == operation.dtype and _size(product.shape) == size
    )
    return next(rated, None) or None


def _size(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:1], *sorted(shape[1:3]), *shape[3:])


def _rate(operation: TracedOperation, rates: DeviceRates) -> float:
    dtype, table = operation.dtype, rates.matmul_flops_per_second
    if operation.kind == "attention" and rates.attention_flops_per_second:
        table = rates.attention_flops_per_second
        kernels = (name.split()[0] for name in table if name.endswith(f" {dtype}"))
        kernel = next((kernel for kernel in kernels if kernel in operation.name), None)
        dtype = dtype if kernel is None else f"{kernel} {dtype}"
    rate = table.get(dtype)
    if not rate:
        raise ValueError(f"{rates.device_model}: no rate of {operation.dtype} {operation.kind} is known")
    return rate


def missing_rate(traces: Iterable[StepTrace], rates: DeviceRates) -> str | None:
    """The first rate that is needed and not known, in one line; None if all are known."""
    if not rates.memory_bytes_per_second:
        return f"{rates.device_model}: the bandwidth of its memory is not known"
    for trace in traces:
        for operation in trace.operations:
            try:
                operation_seconds(operation, rates)
            except ValueError as problem:
                return str(problem)
    return None
