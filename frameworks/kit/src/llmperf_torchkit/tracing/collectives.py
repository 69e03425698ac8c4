"""Communication as torch dispatches it: operations of `c10d` and of the functional collectives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed
from llmperf.types.tracing import Collective, Phase

from llmperf_torchkit.tracing.operations import TABLES, operation_name, tensors_in

NAMES: dict[str, tuple[Collective, str]] = {
    name: (pattern["collective"], pattern["whole"]) for pattern in TABLES["collectives"] for name in pattern["names"]
}
"""By operation: the pattern, and which tensors are the whole, `input`, `output` or `result`."""


@dataclass(slots=True)
class Call:
    """One communication."""

    collective: Collective
    bytes: int
    ranks: tuple[int, ...]
    phase: Phase
    tensors: list[torch.Tensor] = field(repr=False)
    waited: bool
    """Nothing else runs before it has ended."""
    overlaps: bool = False
    work: Any = field(default=None, repr=False)
    """Handle that a caller waits for: torch's `Work`; None for the functional collectives."""


def is_communication(operation: Any) -> bool:
    """Check whether an operation belongs to torch.distributed."""
    return operation_name(operation).partition(".")[0] in ("c10d", "_c10d_functional", "_c10d_functional_autograd")


def call_of(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, phase: Phase) -> Call | None:
    """One communication; None for those without data, such as barriers, and among one rank."""
    name = operation_name(operation).partition(".")[2]
    if name not in NAMES:
        return None
    collective, which = NAMES[name]
    ranks = _ranks(args, kwargs)
    if len(ranks) < 2:
        return None
    groups = [list(tensors_in(value)) for value in args]
    groups = [group for group in groups if group]
    outputs, inputs = groups[0], groups[-1] if len(groups) > 1 else groups[0]
    whole = {"input": inputs, "output": outputs, "result": list(tensors_in(result))}[which]
    if collective == "send_receive":
        peer = next(value for value in args if isinstance(value, int))
        ranks = (torch.distributed.get_rank(), ranks[peer])
    size = sum(tensor.numel() * tensor.element_size() for tensor in whole)
    functional = operation_name(operation).startswith("_c10d")
    waited = not functional and not _asynchronous(operation, args)
    call = Call(collective, size, ranks, phase, list(tensors_in((args, result))), waited)
    values = result if isinstance(result, (list, tuple)) else (result,)
    boxed = [value for value in values if isinstance(value, torch.ScriptObject)]
    call.work = torch.distributed.Work.unbox(boxed[-1]) if boxed and not functional else None
    return call


def _ranks(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
    for group in (*args, *kwargs.values()):
        if isinstance(group, torch.ScriptObject) and "ProcessGroup" in str(group._type()):
            group = torch.distributed.ProcessGroup.unbox(group)
        elif isinstance(group, str) and group in torch.distributed.distributed_c10d._world.pg_names.values():
            group = torch.distributed.distributed_c10d._resolve_process_group(group)
        if isinstance(group, torch.distributed.ProcessGroup):
            return tuple(torch.distributed.get_process_group_ranks(group))
    return ()


def _asynchronous(operation: Any, args: tuple[Any, ...]) -> bool:
    """torch leaves arguments out that have their default."""
    arguments = operation._schema.arguments
    given = {argument.name: argument.default_value for argument in arguments if argument.has_default_value()}
    given |= dict(zip((argument.name for argument in arguments), args, strict=False))
    return bool(given.get("asyncOp", given.get("async_op", False)))
