"""Stand-ins for DeepSpeed, beside torch's, so that its engine runs on tensors without data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from deepspeed.accelerator import real_accelerator
from deepspeed.accelerator.cpu_accelerator import CPU_Accelerator
from llmperf.types import Plan
from llmperf_torchkit.tracing.device import DEFAULT_STREAM, MEMORY_BYTES, NAME, Event, Stream, answer_always

from llmperf_zero.config import CONFIG
from llmperf_zero.deepspeed_import import skip_inference_kernel


class TracedAccelerator(CPU_Accelerator):
    """DeepSpeed's view of the traced device type: asynchronous, with streams and events, as on a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self._name = NAME
        self._communication_backend_name = "fake"

    def device_name(self, device_index: int | None = None) -> str:
        """As torch names it; whatever its index on the node, it is the only one of this process."""
        return NAME if device_index is None else f"{NAME}:0"

    def device(self, device_index: int | None = None) -> Any:
        """The current one."""
        return torch.device(NAME, 0)

    def synchronize(self, device_index: int | None = None) -> None:
        """The host waits."""
        torch.get_device_module(NAME).synchronize()

    def stream(self, stream: Stream | None) -> AbstractContextManager[Any]:
        """A context in which a stream is the current one."""
        context: AbstractContextManager[Any] = torch.get_device_module(NAME).stream(stream)
        return context

    def current_stream(self, device_index: int | None = None) -> Stream:
        """The one that work goes to."""
        return Stream.current

    Stream, Event = Stream, Event

    def on_accelerator(self, tensor: torch.Tensor) -> bool:
        """Check whether a tensor is on the device."""
        return tensor.device.type == NAME


UNCOUNTED = ("memory_allocated", "max_memory_allocated", "memory_cached", "max_memory_cached", "memory_reserved")
ANSWERS = {
    "is_synchronized_device": False,  # the host runs ahead of the device
    "current_device": 0,
    "current_device_name": f"{NAME}:0",
    "device_count": 1,
    "default_stream": DEFAULT_STREAM,
    **dict.fromkeys((*UNCOUNTED, "max_memory_reserved"), 0),
    "memory_stats": {},
    **dict.fromkeys(("total_memory", "available_memory"), MEMORY_BYTES),
    "is_fp16_supported": True,
    "supported_dtypes": [torch.float32, torch.float16, torch.bfloat16],
}
"""Functions of the accelerator that always answer the same."""
answer_always(TracedAccelerator, ANSWERS)


@contextmanager
def deepspeed_without_device() -> Iterator[str]:
    """DeepSpeed's engine on the traced device type."""
    from deepspeed.runtime.zero import partitioned_param_coordinator

    skip_inference_kernel()
    accelerator = TracedAccelerator()
    before = real_accelerator.ds_accelerator
    real_accelerator.set_accelerator(accelerator)
    checks = partitioned_param_coordinator, "assert_ints_same_as_other_ranks"
    with ExitStack() as stack:
        stack.callback(real_accelerator.set_accelerator, before)
        if hasattr(*checks):
            stack.enter_context(patch.object(*checks, lambda *_: None))
        yield "DeepSpeed's accelerator: one that computes nothing; ranks are not asked whether they agree"


STAND_INS: tuple[Callable[[], AbstractContextManager[str]], ...] = (deepspeed_without_device,)
"""For `llmperf_torchkit.tracing.step.traced_step`."""


def with_micro_batches(plan: Plan, micro_batches: int) -> Plan:
    """The plan with another number of micro batches in a step, in DeepSpeed's configuration too."""
    config = json.loads(plan.worker.files[CONFIG])
    config["gradient_accumulation_steps"] = micro_batches
    files = {**plan.worker.files, CONFIG: json.dumps(config)}
    batch = replace(plan.batch, gradient_accumulation=micro_batches)
    return replace(plan, batch=batch, worker=replace(plan.worker, files=files))
