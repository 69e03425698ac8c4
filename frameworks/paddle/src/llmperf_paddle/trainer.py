"""Training by fleet, one process or several."""

from __future__ import annotations

import faulthandler
import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any

import llmperf
import numpy as np
import paddle
from llmperf.errors import PluginError
from llmperf.types import Device, Plan, StepOutput

from llmperf_paddle import gloo
from llmperf_paddle.assembly import Mixing, allow_tf32, assemble, join
from llmperf_paddle.limits import needs_adapter
from llmperf_paddle.losses import SequenceLosses, deferred, recorded_in, skipped

STEPS_KEPT = 16
"""The host may be so many steps ahead of copies that the device has yet to make."""


class Feed:
    """This rank's micro batches, copied to its device without waiting where that can be done."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self._batches = llmperf.open_batches(plan, plan.layout.data_parallel_rank(rank))
        self._accumulation = plan.batch.gradient_accumulation
        self._pinned: deque[paddle.Tensor] = deque(maxlen=STEPS_KEPT * self._accumulation)

    def micro_batch(self) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Inputs and labels of the next micro batch, int64 [micro_batch, seq_len] each."""
        return self._moved(self._batches.next_micro_batch())

    def step(self) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Those of a whole step, one micro batch after the other, [micro_batch x accumulation, seq_len] each."""
        parts = [self._batches.next_micro_batch() for _ in range(self._accumulation)]
        return self._moved(np.concatenate(parts))

    def _moved(self, tokens: np.ndarray) -> tuple[paddle.Tensor, paddle.Tensor]:
        if not paddle.get_device().startswith("gpu"):
            moved = paddle.to_tensor(tokens)
        else:
            pinned = paddle.to_tensor(tokens, place=paddle.CUDAPinnedPlace())
            self._pinned.append(pinned)
            moved = pinned.cuda(blocking=False)
        return moved[:, :-1], moved[:, 1:]

    def close(self) -> None:
        """Let the files go."""
        self._batches.close()


class PaddleTrainer:
    """A model in Paddle with its data and optimiser; a context manager."""

    def __init__(self, plan: Plan, device: Device) -> None:
        if "paddle" not in device.places:
            named = ", ".join(device.places) or "no runtime"
            raise PluginError(
                f"the vendor's device has no place for paddle, only for {named}; choose another framework"
            )
        paddle.set_device(device.places["paddle"])
        self._plan = plan
        self._rank = int(os.environ["RANK"])
        allow_tf32(plan.spec)
        self._mixing = Mixing(plan.spec)
        self._feed = Feed(plan, self._rank)
        self._parts = assemble(plan, self._join(), self._mixing)
        self.parameter_count = self._parts.parameters
        # print the Python stack when native code crashes: Paddle replaces Python's handlers by its own
        paddle.disable_signal_handler()
        if faulthandler.is_enabled():
            faulthandler.disable()
            faulthandler.enable()
        self._sequences = SequenceLosses()
        self._step = 0

    def _join(self) -> Any:
        if self._plan.layout.world_size == 1:
            return None
        patience = max(self._plan.stall_seconds, self._plan.first_step_seconds)
        gloo.install(needed=needs_adapter(self._plan.layout), stall_seconds=patience)
        return join(self._plan)

    def train_step(self) -> StepOutput:
        """One optimiser step. The first one records the losses of its sequences, if it is a warm-up step."""
        if self._step or not self._plan.spec.contract.warmup_steps:
            return self._train_step()
        with recorded_in(self._sequences):
            output = self._train_step()
        self._sequences.copy()
        return output

    def first_losses(self) -> Sequence[float] | None:
        """The mean loss of each sequence of step 1 of this rank's data; None if it does not compute them."""
        return self._sequences.values()

    def _train_step(self) -> StepOutput:
        """One optimiser step: all micro batches, the gradient over all ranks, clipped, the update."""
        contract, parts = self._plan.spec.contract, self._parts
        parts.adamw.set_lr(llmperf.learning_rate(contract.optimizer, self._step + 1, contract.steps))
        if parts.clip:
            parts.clip.norm = None
        loss = self._pipeline() if self._plan.layout.pipeline_parallel > 1 else self._accumulate()
        self._step += 1
        # ranks that share their data report it once: the first tensor-parallel rank of the last stage
        batch, layout, clip = self._plan.batch, self._plan.layout, self._parts.clip
        norm = None if clip is None or clip.norm is None else deferred(clip.norm)
        per_stage = layout.tensor_parallel * layout.data_parallel
        last = self._rank // per_stage == layout.pipeline_parallel - 1
        left_out = skipped(self._parts.scaler)
        if not last or self._rank % layout.tensor_parallel:
            return StepOutput(loss=None, tokens=0, grad_norm=norm, skipped=left_out)
        tokens = batch.micro_batch * batch.gradient_accumulation * batch.seq_len
        return StepOutput(loss=deferred(loss), tokens=tokens, grad_norm=norm, skipped=left_out)

    def _pipeline(self) -> paddle.Tensor:
        """Fleet's own schedule, one forward pass and one backward pass in turn."""
        with self._mixing.computing():
            return self._parts.model.train_batch(
                list(self._feed.step()), self._parts.optimizer, scaler=self._parts.scaler
            )

    def _accumulate(self) -> paddle.Tensor:
        count, parts = self._plan.batch.gradient_accumulation, self._parts
        losses = [self._backward(last=micro == count - 1) for micro in range(count)]
        if parts.scaler is None:
            parts.optimizer.step()
        else:
            parts.scaler.step(parts.optimizer)
            parts.scaler.update()
        parts.optimizer.clear_grad()
        return paddle.stack(losses).mean()

    def _backward(self, *, last: bool) -> paddle.Tensor:
        inputs, labels = self._feed.micro_batch()
        with self._synchronised(last):
            with self._mixing.computing():
                loss = self._parts.model(inputs, labels)
            share = loss / self._plan.batch.gradient_accumulation
            (share if self._parts.scaler is None else self._parts.scaler.scale(share)).backward()
        return loss.detach()

    def _synchronised(self, last: bool) -> AbstractContextManager[None]:
        """Replicas average their gradients with the last micro batch."""
        if last or not isinstance(self._parts.model, paddle.DataParallel):
            return nullcontext()
        return self._parts.model.no_sync()

    def evaluate(self) -> Mapping[str, float]:
        """Nothing beyond the training loss."""
        return {}

    def close(self) -> None:
        """Let the data go. The groups end with the process."""
        self._feed.close()

    def __enter__(self) -> PaddleTrainer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:  # a failing rank must not wait for the others
            self.close()
