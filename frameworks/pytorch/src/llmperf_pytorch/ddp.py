"""Plain PyTorch training, one process or several with DistributedDataParallel."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext

import torch
from llmperf import learning_rate
from llmperf.types import Device, Plan, StepOutput
from llmperf.types.records import DeferredScalar
from llmperf_torchkit.losses import StepSums, deferred, to_come
from llmperf_torchkit.precision import adamw, held_dtype, rest_dtype, set_learning_rate, set_matmul_precision
from llmperf_torchkit.processes import join_ranks, joined, leave_ranks, torch_device
from llmperf_torchkit.trainer import Feed, TorchTrainer, Waits
from llmperf_torchkit.weights import count_parameters
from torch.nn.parallel import DistributedDataParallel

from llmperf_pytorch.decoder.mixture import expert_tokens
from llmperf_pytorch.kernels.choice import Kernels
from llmperf_pytorch.models import build_model


class DdpTrainer(TorchTrainer):
    """Weights and AdamW states in float32, 16 bits by autocast, fp16 with loss scaling; all bfloat16 in pure bf16."""

    def __init__(self, plan: Plan, device: Device) -> None:
        self._plan = plan
        self._contract = plan.spec.contract
        self._device = torch_device(device)
        self._feed = Feed(plan, self._device)
        self._joins = plan.layout.world_size > 1 and not joined()
        if self._joins:
            join_ranks(plan, device.collective_backend)
        set_matmul_precision(self._contract.precision)
        self._kernels = Kernels.of(plan)
        model = self._make()
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._model = model if plan.layout.world_size == 1 else self._distribute(model)
        replicated = isinstance(self._model, DistributedDataParallel)
        if replicated and not getattr(type(device.event()), "blocks", False):  # events that make the host wait
            self._waits = Waits(device)
        self._optimizer = self._make_optimizer()
        self._scaler = torch.amp.GradScaler(self._device.type, enabled=self._contract.precision == "fp16")
        self._step = 0

    def _make(self) -> torch.nn.Module:
        """The model on the device with its initial weights, which gives the loss. Sets `parameter_count`."""
        model = build_model(self._plan.spec, self._device, self._kernels)
        self.parameter_count = count_parameters(model)
        return model

    def _make_optimizer(self) -> torch.optim.Optimizer:
        return adamw(self._model, self._contract.optimizer, self._device)

    def _distribute(self, model: torch.nn.Module) -> torch.nn.Module:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch 2.15 is about to rename broadcast_buffers
            return DistributedDataParallel(
                model,
                device_ids=None if self._device.type == "cpu" else [self._device],
                broadcast_buffers=False,
                gradient_as_bucket_view=True,
            )

    def _train_step(self) -> StepOutput:
        """All micro batches, gradients added up locally and averaged over ranks with the last, one update."""
        accumulation = self._plan.batch.gradient_accumulation
        sums = StepSums()
        for micro in range(accumulation):
            self._backward(sums, last=micro == accumulation - 1)
        grad_norm, skipped = self._update()
        self._step += 1
        return StepOutput(
            loss=deferred(sums.mean_loss()),
            tokens=sums.tokens,
            grad_norm=None if grad_norm is None else deferred(grad_norm),
            skipped=skipped,
        )

    def _backward(self, sums: StepSums, *, last: bool) -> None:
        inputs, labels = self._feed.next()
        with self._synchronised(last):
            with self._autocast():
                loss = self._loss(inputs, labels)
            share = loss / (self._plan.batch.gradient_accumulation / self._feed.weight)
            self._propagate(self._scaler.scale(share), last=last)
        sums.add(loss, self._feed.learnt, self._feed.weight)

    @property
    def _trained(self) -> torch.nn.Module:
        return self._model

    def _loss(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self._model(inputs, labels)
        return loss

    def _propagate(self, loss: torch.Tensor, *, last: bool) -> None:
        waits = self._waits if last else None
        if waits is not None:
            waits.after_gradients(loss)
        loss.backward()
        if waits is not None:
            waits.end()

    def _synchronised(self, last: bool) -> AbstractContextManager[None]:
        if last or not isinstance(self._model, DistributedDataParallel):
            return nullcontext()
        return self._model.no_sync()

    def _autocast(self) -> AbstractContextManager[object]:
        dtype = rest_dtype(self._contract.precision)
        enabled = dtype is not held_dtype(self._contract.precision)
        return torch.autocast(self._device.type, dtype=dtype if enabled else None, enabled=enabled)

    def _update(self) -> tuple[torch.Tensor | None, bool | DeferredScalar]:
        """The gradient norm, and whether the loss scaler leaves the update out."""
        settings, norm = self._contract.optimizer, None
        self._take_gradients()
        self._scaler.unscale_(self._optimizer)
        flags = self._found_overflow()
        if settings.clip_norm is not None:
            norm = self._clip(settings.clip_norm)
        skipped = to_come(torch.stack(flags).sum()) if flags else False
        set_learning_rate(self._optimizer.param_groups, learning_rate(settings, self._step + 1, self._contract.steps))
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._drop_gradients()
        return norm, skipped

    def _take_gradients(self) -> None:
        """Before the update: the optimiser's parameters have their gradients."""

    def _clip(self, largest: float) -> torch.Tensor:
        """Scale all gradients down to a norm of `largest`; returns their norm before."""
        return torch.nn.utils.clip_grad_norm_(self._parameters, largest)

    def _drop_gradients(self) -> None:
        self._optimizer.zero_grad()

    def _found_overflow(self) -> list[torch.Tensor]:
        """Numbers other than 0 where the scaler's `unscale_` has found gradients that are not finite."""
        if not self._scaler.is_enabled():
            return []
        return list(self._scaler._found_inf_per_device(self._optimizer).values())  # public calls wait for the device

    def expert_tokens(self) -> list[list[int]] | None:
        """Tokens of each expert of each mixture on this rank; None for a dense model."""
        return expert_tokens(self._model)

    def close(self) -> None:
        """Let the data go, and leave the process group if it was made here."""
        self._feed.close()
        if self._joins:
            leave_ranks()
