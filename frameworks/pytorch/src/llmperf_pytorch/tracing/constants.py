"""Values that fake tensors of the host remember."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llmperf_pytorch.tracing.operations import tensors_in


@contextmanager
def without_constants(operation: Any, args: tuple[Any, ...]) -> Iterator[None]:
    """Fake tensors remember the values of small host tensors, and compute with them where no device could.

    What the operation writes to, such as the step that an optimiser counts, has no value afterwards.
    """
    remembered = [(one, one.constant) for one in args if getattr(one, "constant", None) is not None]
    for tensor, _ in remembered:
        tensor.constant = None
    try:
        yield
    finally:
        for tensor, constant in remembered:
            tensor.constant = constant
        for argument, given in zip(operation._schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for tensor in tensors_in(given):
                    if getattr(tensor, "constant", None) is not None:
                        tensor.constant = None
