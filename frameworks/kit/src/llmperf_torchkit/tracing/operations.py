"""Classification of dispatched operations: kind, FLOPs, bytes, dtype and shape.

`operations.toml` has the names. To classify a new operation, add its name to `kinds`; to classify what a function or a
module computes by general operations, add the function to `callers` or the end of the module's class name to `modules`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import Any

import torch
from llmperf import read_toml
from llmperf.types.tracing import OperationKind

SCALED_PRODUCTS = ("aten._scaled_mm", "aten._scaled_mm_v2")
"""In fp8; the scales of their operands come after these."""
PRODUCTS = ("aten.mm", "aten.addmm", "aten.addmm_", "aten.bmm", "aten.baddbmm", "aten.baddbmm_", *SCALED_PRODUCTS)
"""Matrix products, whose last two tensors are the factors."""
GROUPED_PRODUCT = "aten._grouped_mm"
"""Products of rows in groups, or of two matrices group by group."""
TABLES = read_toml(Path(__file__).with_suffix(".toml"))
KINDS: dict[str, OperationKind] = {name: kind for kind, names in TABLES["kinds"].items() for name in names}
KINDS |= dict.fromkeys((*PRODUCTS, GROUPED_PRODUCT), "matmul")
PREFIXES: dict[OperationKind, tuple[str, ...]] = {kind: tuple(names) for kind, names in TABLES["prefixes"].items()}
FUNCTIONS: dict[str, OperationKind] = {name: kind for kind, names in TABLES["callers"].items() for name in names}
MODULES: tuple[tuple[str, OperationKind], ...] = tuple(TABLES["modules"].items())
FREE = frozenset(TABLES["free"])
"""Operations without a kernel."""
FRAMES = 14
"""How far above an operation its function or module is looked for."""
WRITES_ONLY = {"aten.zero_", "aten.fill_", "aten.copy_", "aten._foreach_copy_", "aten._foreach_zero_"}
"""Operations that do not read what they write to."""
DTYPES = {
    torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32", torch.float8_e4m3fn: "fp8",
    torch.float8_e5m2: "fp8",
}  # fmt: skip
TENSORS_A_LAUNCH = 32
"""Tensors of a list that one kernel updates, about: multi-tensor kernels take 24 to 110."""


@dataclass(frozen=True, slots=True)
class Work:
    """Work of one call."""

    dtype: str
    flops: float
    bytes: int
    shape: tuple[int, ...]
    kernels: int


@lru_cache(maxsize=4096)
def operation_name(operation: Any) -> str:
    """`aten.mm` of `aten.mm.default`."""
    schema = getattr(operation, "_schema", None)
    return str(operation) if schema is None else str(schema.name).replace("::", ".")


@lru_cache(maxsize=4096)
def is_free(operation: Any) -> bool:
    """Check whether no kernel runs: views, and tensors without values."""
    return operation_name(operation) in FREE or bool(getattr(operation, "is_view", False))


@lru_cache(maxsize=4096)
def known_kind(name: str) -> OperationKind | None:
    """By the name alone; None for general operations."""
    if name in KINDS:
        return KINDS[name]
    return next((kind for kind, prefixes in PREFIXES.items() if name.startswith(prefixes)), None)


def kind_by_caller() -> OperationKind | None:
    """By the function or module that calls; None if it is none of those that are known."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(FRAMES):
        frame = frame.f_back if frame is not None else None
        if frame is None:
            return None
        name = frame.f_code.co_name
        if name in FUNCTIONS:
            return FUNCTIONS[name]
        if name == "forward":
            kind = _module_kind(_owner(frame))
            if kind is not None:
                return kind
    return None


def _owner(frame: FrameType) -> str:
    """The class of a method. Its name is in the code from Python 3.11 on; `f_locals` would keep tensors alive there."""
    name: str | None = getattr(frame.f_code, "co_qualname", None)
    if name is None:
        return type(frame.f_locals.get("self")).__name__
    return name.rpartition(".")[0].rpartition(".")[2]


@lru_cache(maxsize=4096)
def _module_kind(name: str) -> OperationKind | None:
    return next((kind for end, kind in MODULES if name.endswith(end)), None)


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    """All tensors of arguments or results."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from tensors_in(value)
    elif isinstance(values, dict):
        yield from tensors_in(list(values.values()))


def size_of(tensor: torch.Tensor) -> int:
    """Bytes of its distinct elements: an expanded dimension counts once."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return math.prod(size for size, stride in sizes if stride or size == 0) * tensor.element_size()


@lru_cache(maxsize=4096)
def written_arguments(operation: Any) -> tuple[tuple[int, str], ...]:
    """Places and names of the arguments that an operation writes to."""
    arguments = operation._schema.arguments
    pairs = enumerate(arguments)
    return tuple((index, one.name) for index, one in pairs if one.alias_info is not None and one.alias_info.is_write)


def work_of(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Work:
    """FLOPs and bytes of one call."""
    name = operation_name(operation)
    read = {key: value for key, value in kwargs.items() if key != "out"}
    inputs = [tensor for tensor in tensors_in((args, read)) if tensor.device.type != "cpu" or tensor.dim()]
    outputs = list(tensors_in(result))
    written = list(
        tensors_in(
            [args[index] if index < len(args) else kwargs.get(key) for index, key in written_arguments(operation)]
        )
    )
    moved = sum(map(size_of, inputs)) + sum(map(size_of, written or outputs))
    if name in WRITES_ONLY:
        moved -= sum(map(size_of, written))
    elif name in ("aten.embedding", "aten.index_select", "aten.gather"):  # reads only the chosen rows
        moved = 2 * sum(map(size_of, outputs))
    floating = next((one.dtype for one in (*inputs, *outputs) if one.is_floating_point()), None)
    dtype = DTYPES.get(floating, "other") if floating is not None else "int"
    flops, shape = _flops(name, operation, args, kwargs, inputs, outputs)
    lists = max((len(value) for value in args if isinstance(value, (list, tuple))), default=1)
    several = lists if "_foreach" in name or "_fused_adam" in name or "_amp_foreach" in name else 1
    return Work(dtype, flops, moved, shape, -(-several // TENSORS_A_LAUNCH))


def _flops(
    name: str, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: list[Any], outputs: list[Any]
) -> tuple[float, tuple[int, ...]]:
    if name in PRODUCTS:
        left, right = inputs[:2] if name in SCALED_PRODUCTS else inputs[-2:]
        batch = left.shape[0] if left.dim() == 3 else 1
        shape = (batch, left.shape[-2], right.shape[-1], left.shape[-1])
        return 2.0 * math.prod(shape), shape
    if name == GROUPED_PRODUCT:
        return grouped_flops(args)
    if known_kind(name) == "attention":
        return attention_flops(operation, args, kwargs), ()
    if known_kind(name) == "copy":
        return 0.0, ()
    if name.startswith("aten._fused_adam"):
        return 12.0 * sum(tensor.numel() for tensor in args[0]), ()
    return float(sum(tensor.numel() for tensor in outputs or inputs)), ()


def grouped_flops(args: tuple[Any, ...]) -> tuple[float, tuple[int, ...]]:
    """FLOPs of a product of groups, and its groups, rows, columns and inner size if all groups have equally many rows.

    Of rows [rows, in] and matrices [groups, in, out], or of [m, rows] and [rows, n], whose groups are products.
    """
    left, right = args[0], args[1]
    groups = left.shape[0] if left.dim() == 3 else right.shape[0] if right.dim() == 3 else args[2].shape[0]
    rows, columns, inner = left.shape[-2], right.shape[-1], left.shape[-1]
    flops = 2.0 * rows * columns * inner
    if left.dim() == 2 and right.dim() == 2:
        return flops, (groups, rows, columns, inner // groups)
    if left.dim() == 2:
        return flops, (groups, rows // groups, columns, inner)
    if right.dim() == 2:
        return flops, (groups, rows, columns // groups, inner)
    return flops * groups, (groups, rows, columns, inner)


def attention_flops(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
    """FLOPs of a fused kernel: 2 x batch x heads x queries x keys x (width + width of values), half of it if causal.

    Kernels of FlexAttention say how many `pairs` of query and key they compute. 2.5 times that backward.
    """
    names = [argument.name for argument in operation._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    query, key = given.get("query"), given.get("key")
    if not isinstance(query, torch.Tensor) or not isinstance(key, torch.Tensor) or query.dim() != 4:
        return 0.0
    batch, heads, queries, width = query.shape
    value = given.get("value")
    both = width + (value.shape[-1] if isinstance(value, torch.Tensor) else width)
    flops = 2.0 * batch * heads * given.get("pairs", queries * key.shape[-2]) * both
    backward = 2.5 if "backward" in operation_name(operation) else 1.0
    return flops * backward * (0.5 if given.get("is_causal") else 1.0)


OWN = ("/torch/", "/llmperf_torchkit/tracing/", "/tracing.py", "/unittest/", "/contextlib.py")
"""Files that are never the place of a host wait."""
FLAGS = ("overflow", "check_using_norm", "_maybe_opt_step")
"""Parts of names of functions that read whether a gradient overflowed: in a steady step none has."""
FLAG_FRAMES = 6
"""How far above a read such a function is."""


def within(functions: set[str]) -> bool:
    """Check whether one of these functions is running."""
    return any(frame.f_code.co_name in functions for frame, _ in walk_stack(sys._getframe(2)))


def reads_a_flag() -> bool:
    """Check whether a function runs that reads whether a gradient overflowed."""
    callers = islice(walk_stack(sys._getframe(2)), FLAG_FRAMES)
    return any(part in frame.f_code.co_name for frame, _ in callers for part in FLAGS)


def caller() -> str:
    """`package/file.py:line` of the innermost frame that is neither torch's nor of this package."""
    frame = sys._getframe(2)
    while frame.f_back is not None and any(part in frame.f_code.co_filename for part in OWN):
        frame = frame.f_back
    path = frame.f_code.co_filename.split("site-packages/")[-1].split("/src/")[-1]
    return f"{path}:{frame.f_lineno}"
