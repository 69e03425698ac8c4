"""Stand-ins for DeepSpeed, beside torch's, so that its engine runs on tensors without data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch
from deepspeed.accelerator import real_accelerator
from deepspeed.accelerator.cpu_accelerator import CPU_Accelerator
from llmperf_pytorch.tracing.device import MEMORY_BYTES, NAME, Event, Stream

from llmperf_zero.config import CONFIG
from llmperf_zero.deepspeed_import import skip_inference_kernel

if TYPE_CHECKING:
    from llmperf.types import Plan


class TracedAccelerator(CPU_Accelerator):
    """DeepSpeed's view of the traced device type: asynchronous, with streams and events, as on a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self._name = NAME
        self._communication_backend_name = "fake"

    def is_synchronized_device(self) -> bool:
        """The host runs ahead of the device."""
        return False

    def device_name(self, device_index: int | None = None) -> str:
        """As torch names it; whatever its index on the node, it is the only one of this process."""
        return NAME if device_index is None else f"{NAME}:0"

    def device(self, device_index: int | None = None) -> Any:
        """The current one."""
        return torch.device(NAME, 0)

    def current_device(self) -> int:
        """One in each process."""
        return 0

    def current_device_name(self) -> str:
        """With its index."""
        return f"{NAME}:0"

    def device_count(self) -> int:
        """One in each process."""
        return 1

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

    def default_stream(self, device_index: int | None = None) -> Stream:
        """The first one."""
        stream: Stream = torch.get_device_module(NAME).default_stream()
        return stream

    Stream, Event = Stream, Event

    def memory_allocated(self, device_index: int | None = None) -> int:
        """Not counted here."""
        return 0

    max_memory_allocated = memory_cached = max_memory_cached = memory_allocated
    memory_reserved = max_memory_reserved = memory_allocated

    def memory_stats(self, device_index: int | None = None) -> dict[str, int]:
        """Not counted here."""
        return {}

    def total_memory(self, device_index: int | None = None) -> int:
        """Enough."""
        return MEMORY_BYTES

    available_memory = total_memory

    def is_fp16_supported(self) -> bool:
        """As on a GPU."""
        return True

    def supported_dtypes(self) -> list[torch.dtype]:
        """As on a GPU."""
        return [torch.float32, torch.float16, torch.bfloat16]

    def on_accelerator(self, tensor: torch.Tensor) -> bool:
        """Check whether a tensor is on the device."""
        return tensor.device.type == NAME


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
"""For `llmperf_pytorch.tracing.step.traced_step`."""


def with_micro_batches(plan: Plan, micro_batches: int) -> Plan:
    """The plan with another number of micro batches in a step, in DeepSpeed's configuration too."""
    config = json.loads(plan.worker.files[CONFIG])
    config["gradient_accumulation_steps"] = micro_batches
    files = {**plan.worker.files, CONFIG: json.dumps(config)}
    batch = replace(plan.batch, gradient_accumulation=micro_batches)
    return replace(plan, batch=batch, worker=replace(plan.worker, files=files))
