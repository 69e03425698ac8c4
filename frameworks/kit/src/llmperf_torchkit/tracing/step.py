"""The entry: a trainer's step, recorded on fake tensors, as a `StepTrace`."""

from __future__ import annotations

import gc
import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from llmperf.types import Device, Plan, Trainer
from llmperf.types.tracing import HostWait, StepTrace, TracedCollective, TracedMemory, TracedOperation

from llmperf_torchkit.tracing.device import TracedDevice, register_device_type
from llmperf_torchkit.tracing.memory import LiveMemory
from llmperf_torchkit.tracing.recorder import CollectiveKey, OperationKey, Recorder

Build = Callable[[Plan, Device], Trainer]

Key = TypeVar("Key")
COMPILE_NOTE = "compile: chains of elementwise operations are modelled as one kernel each, not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """One step with a number of micro batches."""

    micro_batches: int
    operations: Counter[OperationKey]
    collectives: Counter[CollectiveKey]
    host_waits: Counter[tuple[str, str]]
    memory: TracedMemory
    parameters: int


def traced_step(
    plan: Plan,
    rank: int,
    build: Build,
    *,
    with_micro_batches: Callable[[Plan, int], Plan] | None = None,
    stand_ins: Sequence[Callable[[], AbstractContextManager[str]]] = (),
) -> StepTrace:
    """A step of the trainer that `build` makes, on one rank.

    Few micro batches run, and the counts for each are a difference between two numbers of them. `with_micro_batches`
    gives the plan another number of micro batches in a step; `stand_ins` are contexts of the framework, each of which
    gives a line that says what it replaces. To be called in a process of its own.
    """
    from llmperf_torchkit.tracing.data_parallel import bucketed_data_parallel
    from llmperf_torchkit.tracing.fusion import chains_of_compiled_blocks, with_recomputed_activations
    from llmperf_torchkit.tracing.stand_ins import (
        conversion_of_modules,
        kernels_of_accelerators,
        meshes_with_ranks,
        no_communication,
        no_data,
        streams_in_order,
    )

    gc.freeze()  # what is imported is neither collected nor looked through for the modules of a step
    register_device_type()
    logging.getLogger("torch").setLevel(logging.ERROR)
    plan = with_recomputed_activations(plan)
    change = with_micro_batches or (
        lambda plan, count: replace(plan, batch=replace(plan.batch, gradient_accumulation=count))
    )
    # enough micro batches to fill a pipeline
    accumulation, most = plan.batch.gradient_accumulation, plan.layout.pipeline_parallel + 1
    counts = (accumulation,) if accumulation <= most else (most - 1, most)
    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        replaced = ["device and tensors: torch's fake tensors, which have no data"]
        for context in (
            no_data(plan),
            no_communication(plan, rank),
            conversion_of_modules(),
            streams_in_order(),
            meshes_with_ranks(),
            kernels_of_accelerators(),
            *((chains_of_compiled_blocks(),) if plan.spec.tuning.compile else ()),
            bucketed_data_parallel(),
            *(make() for make in stand_ins),
        ):
            replaced.append(stack.enter_context(context))
        steps = [_record(change(plan, count), build) for count in counts]
    return _trace(plan, rank, steps, tuple(replaced))


def _record(plan: Plan, build: Build) -> RecordedStep:
    """The second step of a new trainer: the first one makes the optimiser's states."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed.tensor.debug import _clear_sharding_prop_cache

    _clear_sharding_prop_cache()  # its layouts are on the device mesh of the trainer before
    with FakeTensorMode(allow_non_fake_inputs=True), Recorder() as recorder:
        trainer = build(plan, TracedDevice())
        hooks = [*_mark_gradients(recorder.memory)]
        trainer.train_step()
        _mark_states(recorder.memory)
        recorder.clear()
        start = recorder.memory.forget_past()
        trainer.train_step()
        vocabulary = plan.spec.model.vocab_size
        step = RecordedStep(
            micro_batches=plan.batch.gradient_accumulation,
            operations=recorder.operations,
            collectives=recorder.collectives,
            host_waits=recorder.host_waits,
            memory=recorder.memory.summary(start, (vocabulary, vocabulary // plan.layout.tensor_parallel)),
            parameters=trainer.parameter_count,
        )
        recorder.clear()  # what closing the trainer does is not of the step
        for hook in hooks:
            hook.remove()
        trainer.__exit__(None, None, None)
    del trainer, recorder
    gc.collect()
    return step


def _objects_of(kind: type) -> Iterator[Any]:
    return (one for one in gc.get_objects() if issubclass(type(one), kind))


def _mark_gradients(memory: LiveMemory) -> Iterator[Any]:
    """Hooks that mark each gradient when it is there."""

    def mark(parameter: torch.Tensor) -> None:
        if parameter.grad is not None:
            memory.mark(parameter.grad, "gradients")

    for parameter in {id(one): one for module in _objects_of(torch.nn.Module) for one in module.parameters()}.values():
        if parameter.requires_grad and parameter.is_leaf:
            yield parameter.register_post_accumulate_grad_hook(mark)


def _mark_states(memory: LiveMemory) -> None:
    """Mark weights, and what optimisers hold beside them."""
    for module in _objects_of(torch.nn.Module):
        held = (*module._parameters.values(), *module._buffers.values())  # a class may name something else `buffers`
        for tensor in (one for one in held if one is not None):
            memory.mark(tensor, "parameters")
            if isinstance(getattr(tensor, "ds_tensor", None), torch.Tensor):
                memory.mark(tensor.ds_tensor, "parameters")
    for optimizer in _objects_of(torch.optim.Optimizer):
        for state in optimizer.state.values():
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    memory.mark(value, "optimizer")
        for group in optimizer.param_groups:
            for tensor in group["params"]:
                memory.mark(tensor, "optimizer", firmly=False)
                if tensor.grad is not None:
                    memory.mark(tensor.grad, "gradients", firmly=False)


def _trace(plan: Plan, rank: int, steps: list[RecordedStep], stand_ins: tuple[str, ...]) -> StepTrace:
    last, accumulation = steps[-1], plan.batch.gradient_accumulation
    tf32 = plan.spec.contract.precision == "tf32"
    operations = split_counts([(step.micro_batches, step.operations) for step in steps], accumulation)
    collectives = split_counts([(step.micro_batches, step.collectives) for step in steps], accumulation)
    waits = split_counts([(step.micro_batches, step.host_waits) for step in steps], accumulation)
    return StepTrace(
        rank=rank,
        method="fake tensors",
        traced_micro_batches=last.micro_batches,
        operations=tuple(
            TracedOperation(
                name=name,
                kind=kind,
                phase=phase,
                dtype="tf32" if tf32 and work.dtype == "fp32" and kind == "matmul" else work.dtype,
                flops=work.flops,
                bytes=work.bytes,
                shape=work.shape,
                kernels=work.kernels,
                per_micro_batch=each,
                per_step=besides,
            )
            for (name, kind, phase, work), each, besides in operations
        ),
        collectives=tuple(
            TracedCollective(
                collective=collective,
                bytes=size,
                ranks=ranks,
                phase=phase,
                overlaps=overlaps,
                per_micro_batch=each,
                per_step=besides,
            )
            for (collective, size, ranks, phase, overlaps), each, besides in collectives
        ),
        host_waits=tuple(
            HostWait(where=where, operation=operation, per_step=float(each * accumulation + besides))
            for (where, operation), each, besides in waits
        ),
        memory=last.memory,
        parameters=last.parameters if last.parameters > 1 else None,  # 1 stands for a sum over ranks without values
        stand_ins=stand_ins,
        notes=(COMPILE_NOTE,) if plan.spec.tuning.compile else (),
    )


def split_counts(counters: list[tuple[int, Counter[Key]]], micro_batches: int) -> Iterator[tuple[Key, int, int]]:
    """Each key with its count per micro batch and per step besides, from one or two numbers of micro batches.

    Per step is counted all of one number alone, and what the first micro batches lack, such as sums with gradients of
    earlier ones: as often as in a step of `micro_batches`.
    """
    more, last = counters[-1]
    fewer, first = counters[0]
    for key, count in last.items():
        each = max(0, (count - first[key]) // (more - fewer)) if more > fewer else 0
        besides = count - more * each
        yield (key, each, besides) if besides >= 0 else (key, 0, max(0, each * micro_batches + besides))
