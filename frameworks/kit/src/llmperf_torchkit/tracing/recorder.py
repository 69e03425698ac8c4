"""Everything that a step dispatches: operations, communication, host waits and memory, as they happen."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from traceback import walk_stack
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed
from llmperf.types.tracing import Collective, MemoryKind, OperationKind, Phase
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass_type

from llmperf_torchkit.tracing.collectives import Call, call_of, is_communication
from llmperf_torchkit.tracing.device import DEFAULT_STREAM, HOST_WAITS, NAME, Stream
from llmperf_torchkit.tracing.fusion import COMPILED, Chain
from llmperf_torchkit.tracing.fusion import NAME as CHAIN
from llmperf_torchkit.tracing.memory import LiveMemory
from llmperf_torchkit.tracing.operations import (
    Work,
    caller,
    is_free,
    kind_by_caller,
    known_kind,
    operation_name,
    reads_a_flag,
    tensors_in,
    within,
    work_of,
)
from llmperf_torchkit.tracing.stand_ins import without_constants

SYNCHRONOUS = {"aten._local_scalar_dense", "aten.nonzero", "aten.masked_select", "aten.equal", "aten._unique2"}
"""Operations whose result the host needs at once."""
BUFFERS: dict[str, MemoryKind] = dict.fromkeys(
    ("setup_buckets", "backward_prologue", "reduce_gradients", "_configure_offloading"), "communication"
)
"""Content of large tensors without values, by the function that makes them."""
LARGE = 2**24
"""Elements from which on a tensor without values is looked up there."""
NOT_UPDATES = {
    "backward", "allreduce_gradients", "_exec_backward_pass", "_exec_recv_grads", "_exec_send_grads",
    "_exec_recv_activations", "_exec_send_activations", "_exec_reduce_grads", "_exec_reduce_tied_grads",
    "pp_forward_backward_step", "forward_backward_no_pipelining",
    "forward_backward_pipelining_without_interleaving", "forward_backward_pipelining_with_interleaving",
}  # fmt: skip
"""Functions of engines around and after a backward pass, which still sum and send gradients after its graph."""

SHAPES = "_propagate_tensor_meta_non_cached"
"""Method by which DTensor learns the whole shape of a result (torch 2.6 to 2.15)."""

OperationKey = tuple[str, OperationKind, Phase, Work]
CollectiveKey = tuple[Collective, int, tuple[int, ...], Phase, bool]


class Recorder(TorchDispatchMode):
    """A context inside `FakeTensorMode`. Its counters hold what happened since `clear`."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = LiveMemory(NAME)
        self.phase: Phase = "forward"
        self.clear()
        self._kinds: dict[int, OperationKind] = {}
        self._only_shapes = False
        self._chain = Chain(self.memory)
        self._stack = ExitStack()

    def clear(self) -> None:
        """Begin to count anew."""
        self.operations: Counter[OperationKey] = Counter()
        self.host_waits: Counter[tuple[str, str]] = Counter()
        self._calls: list[Call] = []
        self._pending: list[Call] = []
        self._works: dict[int, Any] = {}

    @property
    def collectives(self) -> Counter[CollectiveKey]:
        """Communications, equal ones together."""
        return Counter((one.collective, one.bytes, one.ranks, one.phase, one.overlaps) for one in self._calls)

    def __enter__(self) -> Any:
        enter, only_shapes = self._stack.enter_context, self._learning(getattr(ShardingPropagator, SHAPES))
        enter(patch.object(HOST_WAITS, "listener", self))
        self._stack.callback(torch._C._set_only_lift_cpu_tensors, torch._C._only_lift_cpu_tensors())
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device=...) then copies as a dispatched operation
        enter(self._phases())
        for kind in (torch.distributed.Work, getattr(torch._C._distributed_c10d, "FakeWork", None)):
            if kind is not None and "wait" in vars(kind):  # what a class inherits is noted by the other
                enter(patch.object(kind, "wait", self._noted(kind.wait)))
        enter(patch.object(torch.UntypedStorage, "resize_", self._resizing(torch.UntypedStorage.resize_)))
        enter(patch.object(ShardingPropagator, SHAPES, only_shapes))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._stack.close()

    def note(self, operation: str) -> None:
        """The host waits for the device."""
        self.host_waits[caller(), operation] += 1

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = operation_name(operation)
        if name == "prim.device":
            return args[0].fake_device if hasattr(args[0], "fake_device") else operation(*args)
        if self._only_shapes:
            return operation(*args, **(kwargs or {}))
        if any(kind is not FakeTensor and is_traceable_wrapper_subclass_type(kind) for kind in types):
            return NotImplemented  # the operations on the parts of such tensors come here afterwards
        kwargs = kwargs or {}
        self._follow_phase()
        if name == "aten._pin_memory":
            return args[0]
        if name == "aten._local_scalar_dense":
            return self._value(args[0]) if isinstance(args[0], FakeTensor) else operation(*args)
        with without_constants(operation, args):
            result = operation(*args, **kwargs)
        joined = None
        if is_communication(operation):
            self._communicate(operation, args, kwargs, result)
        elif not is_free(operation):
            joined = self._count(operation, name, args, kwargs, result)
        for tensor in tensors_in(result):
            self.memory.add(tensor, name)
            if name == "aten.empty" and tensor.numel() >= LARGE:
                self._mark_buffer(tensor)
        if joined is not None:
            self._chain.add(operation, args, kwargs, result, joined, self.phase)
        return result

    def _mark_buffer(self, tensor: torch.Tensor) -> None:
        callers = (frame.f_code.co_name for frame, _ in walk_stack(sys._getframe(2)))
        if (maker := next((name for name in callers if name in BUFFERS), None)) is not None:
            self.memory.mark(tensor, BUFFERS[maker])

    def _follow_phase(self) -> None:
        if torch._C._current_graph_task_id() != -1:
            self.phase = "backward"
        elif self.phase == "backward" and not within(NOT_UPDATES):
            self.phase = "update"
        self.memory.phase = self.phase
        self.memory.recomputing = self.phase == "backward" and torch.is_grad_enabled()

    def _value(self, tensor: torch.Tensor) -> bool | int | float:
        """Placeholder of a number without value: 1, which is safe as a divisor; False and 0 for flags."""
        if tensor.device.type == NAME:
            self.note("Tensor.item")
        elif getattr(tensor, "constant", None) is not None:
            value: bool | int | float = tensor.constant.item()
            return value
        if tensor.dtype is torch.bool:
            return False
        if reads_a_flag():
            return 0
        return 1.0 if tensor.is_floating_point() else 1

    def _count(
        self, operation: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> OperationKind | None:
        """Count an operation; its kind instead, if a compiler joins it to others."""
        devices = {tensor.device.type for tensor in tensors_in((args, kwargs, result))}
        if NAME not in devices:
            return None
        if name in SYNCHRONOUS or (name in ("aten.copy_", "aten._to_copy") and _waits_for_copy(args, kwargs, result)):
            self.note(name)
        for call in self._pending:
            call.overlaps = True
        kind = known_kind(name) or self._kind_by_place() or ("optimizer" if self.phase == "update" else "elementwise")
        if self.phase == "forward" or self.memory.recomputing:
            self._kinds[torch._C._autograd._get_sequence_nr() - 1] = kind
        takes = self._chain.takes(name, kind)
        self._end_chain(takes)
        if takes:
            return kind
        self.operations[name, kind, self.phase, work_of(operation, args, kwargs, result)] += 1
        return None

    def _end_chain(self, takes: bool = False) -> None:
        """Count the chain of operations so far, unless it goes on."""
        if (chain := self._chain.ended(takes)) is not None:
            kind, phase, work = chain
            self.operations[CHAIN, kind, phase, work] += 1

    def _kind_by_place(self) -> OperationKind | None:
        """By who calls; backward, by the operation whose gradient it is."""
        kind = kind_by_caller()
        if kind is None and self.phase == "backward" and not self.memory.recomputing:
            node = torch._C._current_autograd_node()
            forward = self._kinds.get(node._sequence_nr()) if node is not None else None
            kind = forward if forward not in ("matmul", "copy", "embedding", "optimizer") else None
        return kind

    def _communicate(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if operation_name(operation).endswith(".wait_tensor"):
            self._ended(args[0])
            return
        call = call_of(operation, args, kwargs, result, self.phase)
        if call is None:
            return
        call.overlaps = Stream.current is not DEFAULT_STREAM
        self._calls.append(call)
        if call.work is not None:
            self._works[id(call.work)] = call.work
        for tensor in call.tensors:
            self.memory.add(tensor, operation_name(operation))
            self.memory.mark(tensor, "communication", firmly=False)
        if not call.waited:
            self._pending.append(call)
        else:
            call.tensors = []

    def _ended(self, tensor: torch.Tensor) -> None:
        """The communication of a tensor has been waited for."""
        storage = tensor.untyped_storage()._cdata
        for call in self._pending:
            if any(one.untyped_storage()._cdata == storage for one in call.tensors):
                self._end([call])
                return

    def _waited(self, work: Any) -> None:
        """A communication has been waited for, or a group of them, which has a `Work` of its own."""
        ended = [call for call in self._pending if call.work is work]
        if id(work) not in self._works:
            ended = [call for call in self._pending if call.work is not None]
        self._end(ended)

    def _end(self, calls: list[Call]) -> None:
        for call in calls:
            call.tensors = []
        self._pending = [call for call in self._pending if not any(call is one for one in calls)]

    def _noted(self, wait: Callable[..., bool]) -> Callable[..., bool]:
        def noted(work: Any, *arguments: Any, **named: Any) -> bool:
            self._waited(work)
            return wait(work, *arguments, **named)

        return noted

    @contextmanager
    def _phases(self) -> Iterator[None]:
        """A module that is called outside of a backward pass begins a forward pass; an optimiser, the update."""

        def forward(*_: Any) -> None:
            if torch._C._current_graph_task_id() == -1:
                self.phase = self.memory.phase = "forward"

        def update(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            COMPILED.turn(False)
            self._end_chain()
            self.phase = self.memory.phase = "update"
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self.memory.mark(parameter.grad, "gradients", firmly=False)

        hooks = (
            torch.nn.modules.module.register_module_forward_pre_hook(forward),
            register_optimizer_step_pre_hook(update),
        )
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _learning(self, propagate: Callable[..., Any]) -> Callable[..., Any]:
        """DTensor learns the whole shape of a result by an operation on fake tensors, which runs on no device."""

        def uncounted(propagator: ShardingPropagator, *arguments: Any, **named: Any) -> Any:
            self._only_shapes = True
            try:
                return propagate(propagator, *arguments, **named)
            finally:
                self._only_shapes = False

        return uncounted

    def _resizing(self, resize: Callable[..., Any]) -> Callable[..., Any]:
        """Storages that change their size, as sharded parameters do."""

        def noted(storage: torch.UntypedStorage, size: int) -> Any:
            result = resize(storage, size)
            self.memory.resized(storage, size, "resize_")
            return result

        return noted


def _waits_for_copy(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> bool:
    """Check whether a copy goes from the device to the host, and the host waits for it."""
    source = args[1] if len(args) > 1 and isinstance(args[1], torch.Tensor) else args[0]
    non_blocking = kwargs.get("non_blocking", args[2] if len(args) > 2 else False)
    return source.device.type == NAME and result.device.type == "cpu" and not non_blocking
