"""Base of the trainers built on torch, their micro batches, and how long a rank waits for communication with others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

import llmperf
import torch
import torch.distributed
from llmperf.errors import RunFailed
from llmperf.types import Device, Plan, StepOutput
from llmperf.types.devices import DeviceEvent
from typing_extensions import Self

from llmperf_torchkit.compiled import compile_seconds, compiler_failure
from llmperf_torchkit.losses import SequenceLosses, recorded_in
from llmperf_torchkit.precision import adamw_kernel, projections_text
from llmperf_torchkit.processes import own_rank


class Feed:
    """This rank's micro batches, copied to its device without waiting."""

    def __init__(self, plan: Plan, device: torch.device) -> None:
        self._batches = llmperf.open_batches(plan, plan.layout.data_parallel_rank(own_rank()))
        self._device = device
        self._padded = plan.spec.contract.packing == "padded"

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and labels of the next micro batch, int64 [micro_batch, seq_len] each.

        Padding is at the end of its row, so no token attends to it: as input it is id 0, as label it is -100,
        which the loss leaves out.
        """
        tokens = torch.from_numpy(self._batches.next_micro_batch())
        if self._device.type != "cpu":
            tokens = tokens.pin_memory().to(self._device, non_blocking=True)
        inputs, labels = tokens[:, :-1], tokens[:, 1:]
        return (inputs.clamp(min=0) if self._padded else inputs), labels

    @property
    def learnt(self) -> int:
        """Tokens of the last micro batch that are predicted, padding not counted; known on the host."""
        return self._batches.learnt

    @property
    def weight(self) -> float:
        """Weight of the mean loss of the last micro batch; 1 where nothing is padded."""
        return self._batches.weight

    def close(self) -> None:
        """Let the files go."""
        self._batches.close()


class Waits:
    """Adds up the time between pairs of device events. Neither setting nor reading them waits for the device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._begun: DeviceEvent | None = None
        self._pending: deque[tuple[DeviceEvent, DeviceEvent]] = deque()
        self._seconds = 0.0

    def after_gradients(self, loss: torch.Tensor) -> None:
        """Begin a wait when the backward pass of `loss` has computed all gradients, and only communicates."""
        # callbacks run in the order in which they were queued: this one is queued by the first node of the backward
        # pass, before DistributedDataParallel queues the callback in which it waits for its reductions
        loss.register_hook(lambda _: torch.autograd.Variable._execution_engine.queue_callback(self.begin))

    def begin(self) -> None:
        """From now on the rank waits."""
        self._begun = self._device.event()

    def end(self) -> None:
        """The rank continues."""
        if self._begun is not None:
            self._pending.append((self._begun, self._device.event()))
            self._begun = None
        while self._pending and self._pending[0][1].ready():
            self._add()

    def _add(self) -> None:
        begin, end = self._pending.popleft()
        self._seconds += max(0.0, end.seconds_since(begin))

    def seconds(self) -> float:
        """The sum of all waits that have ended. To be called when the device has done all its work."""
        while self._pending:
            self._add()
        return self._seconds


@contextmanager
def waits_of_calls(device: Device) -> Iterator[Waits]:
    """The sum of the times in which this process waits for a collective, or for a message of another rank, on the host.

    For backends whose `Work.wait` blocks the host, such as gloo: every call of `torch.distributed` from Python ends in
    it, whether it was made to be waited for or not.
    """
    waits, wait = Waits(device), torch.distributed.Work.wait
    waiting = False

    def measured(work: torch.distributed.Work, *arguments: Any, **named: Any) -> bool:
        nonlocal waiting
        if waiting:
            return wait(work, *arguments, **named)
        waiting = True
        waits.begin()
        try:
            return wait(work, *arguments, **named)
        finally:
            waits.end()
            waiting = False

    torch.distributed.Work.wait = measured
    try:
        yield waits
    finally:
        torch.distributed.Work.wait = wait


NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


class TorchTrainer(ABC):
    """A `llmperf.types.Trainer` without an evaluation, which is closed only if it ended without an error."""

    parameter_count: int
    """Parameters of the whole model, set while it is built."""
    _plan: Plan
    _kernels: Any
    """llmperf-pytorch's `Kernels`, where a model is made of its blocks; other trainers name theirs."""
    _device: torch.device
    _optimizer: torch.optim.Optimizer
    _waits: Waits | None = None
    """Waits for communication; None where they are not measured."""
    _calls: ExitStack | None = None
    _step_one: SequenceLosses | None = None

    def _measure_calls(self, device: Device) -> None:
        """Measure the waits in calls of `torch.distributed` from now on, if they make the host wait."""
        if torch.distributed.get_world_size() > 1 and device.collective_backend == "gloo":
            self._calls = ExitStack()
            self._waits = self._calls.enter_context(waits_of_calls(device))

    @property
    def kernels(self) -> Mapping[str, str]:
        """Kernel of each operation, for the result."""
        spec = self._plan.spec
        return self._kernels.named(spec.model, spec.tuning.attention, adamw_kernel(self._optimizer), self._device.type)

    @property
    def precisions(self) -> Mapping[str, str]:
        """In which precision each group of modules ran, for the result."""
        spec = self._plan.spec
        recipe = llmperf.precision_recipe(spec.contract.precision)
        products: dict[str, str] = {"products": recipe.rest}
        if recipe.mixed:
            products = {"projections of blocks": projections_text(self._trained, spec), "other products": recipe.rest}
        if recipe.scaling == "loss":
            products["products"] += ", loss scaled"
        updated = [weight for group in self._optimizer.param_groups for weight in group["params"]]
        states = self._optimizer.state.values()
        moments = [state[name] for state in states for name in ("exp_avg", "exp_avg_sq") if name in state]
        held = {"weights": self._trained.parameters(), "updated weights": updated, "optimizer states": moments}
        named = {name: _named(tensors) for name, tensors in held.items()}
        return {**products, **{name: dtypes for name, dtypes in named.items() if dtypes}}

    @property
    @abstractmethod
    def _trained(self) -> torch.nn.Module:
        """The model, or this rank's part of it."""

    def compile_seconds(self) -> float | None:
        """Seconds in which torch has compiled for this rank; None if it has not."""
        return compile_seconds()

    def communication_seconds(self) -> float | None:
        """Time so far in which computation waited for other ranks; None where it is not measured."""
        return None if self._waits is None else self._waits.seconds()

    def train_step(self) -> StepOutput:
        """One optimiser step. The first one records the losses of its sequences, if it is a warm-up step."""
        if self._step_one is not None or not self._plan.spec.contract.warmup_steps:
            return self._train_step()
        self._step_one = SequenceLosses()
        with recorded_in(self._step_one):
            output = self._train_step()
        self._step_one.copy()
        return output

    def first_losses(self) -> Sequence[float] | None:
        """The mean loss of each sequence of step 1 of this rank's data; None if it does not compute them."""
        return None if self._step_one is None else self._step_one.values()

    @abstractmethod
    def _train_step(self) -> StepOutput:
        """One optimiser step."""

    @abstractmethod
    def close(self) -> None:
        """Give back what it holds."""

    def evaluate(self) -> Mapping[str, float] | Iterator[Mapping[str, float]]:
        """Nothing beyond the training loss."""
        return {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._calls is not None:
            self._calls.close()
        if error is None:  # a failing rank must not wait for the others
            self.close()
        elif self._plan.spec.tuning.compile and (reason := compiler_failure(error)) is not None:
            raise RunFailed(f"torch.compile failed: {reason}; nearest: --set compile=false") from error


def _named(tensors: Iterable[torch.Tensor]) -> str:
    dtypes = {tensor.dtype for tensor in tensors}
    return ", ".join(sorted(NAMES.get(dtype, str(dtype)) for dtype in dtypes))
