"""Training by DeepSpeed's engine.

Its updates make the host wait for its device where a stream can wait for a stream. That is replaced, as of DeepSpeed
0.19.8; what another version lacks is left as it is. Offloaded states need their waits: the host reads them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from deepspeed.accelerator import get_accelerator
from deepspeed.runtime.fp16.unfused_optimizer import FP16_UnfusedOptimizer
from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3
from deepspeed.runtime.zero.stage_1_and_2 import DeepSpeedZeroOptimizer
from llmperf import learning_rate
from llmperf.types import Device, Plan, RunSpec, StepOutput
from llmperf_pytorch.decoder.mixture import expert_tokens
from llmperf_pytorch.kernels.choice import Kernels
from llmperf_pytorch.models import construct_model
from llmperf_torchkit.losses import StepSums, deferred
from llmperf_torchkit.precision import (
    adamw,
    default_dtype,
    parameter_groups,
    rest_dtype,
    set_learning_rate,
    set_matmul_precision,
)
from llmperf_torchkit.processes import joined, leave_ranks, torch_device
from llmperf_torchkit.trainer import Feed, TorchTrainer
from llmperf_torchkit.weights import count_parameters, fill_parameter, fill_slice

from llmperf_zero.config import CONFIG
from llmperf_zero.deepspeed_import import check_gradients, deepspeed, init_ranks, reset_step_count
from llmperf_zero.extensions import compiling
from llmperf_zero.options import offloads


def remove_host_waits(optimizer: Any, spec: RunSpec) -> None:
    """Change one of DeepSpeed's optimisers, once its engine is made."""
    if get_accelerator().is_synchronized_device() or spec.framework.get("offload", "none") != "none":
        return
    if isinstance(optimizer, DeepSpeedZeroOptimizer_Stage3):
        stream = getattr(optimizer, "reduce_and_partition_stream", None)
        if stream is not None:
            stream.synchronize = partial(_continue_after, stream)
        if optimizer.persistent_parameters:
            _wrap(optimizer.persistent_parameters[0], "all_gather", None)
    elif isinstance(optimizer, DeepSpeedZeroOptimizer):
        name = "overlapping_partition_gradients_reduce_epilogue"
        _wrap(optimizer, name, optimizer.reduction_stream)
    elif isinstance(optimizer, FP16_UnfusedOptimizer) and spec.contract.precision == "bf16":
        optimizer.step = partial(_update, optimizer)


def _wrap(owner: Any, name: str, stream: Any) -> None:
    """Have a method of one object order streams where it would have the host wait for the whole device."""
    method: Callable[..., Any] | None = getattr(owner, name, None)
    if method is None:
        return

    def ordered(*arguments: Any, **named: Any) -> Any:
        with _ordering(stream):
            return method(*arguments, **named)

    setattr(owner, name, ordered)


@contextmanager
def _ordering(stream: Any) -> Iterator[None]:
    accelerator = get_accelerator()
    accelerator.synchronize = partial(_continue_after, stream)
    try:
        yield
    finally:
        del accelerator.synchronize


def _continue_after(stream: Any, *_: object) -> None:
    """The current stream continues when another has done its work; the host continues at once."""
    if stream is not None:
        get_accelerator().current_stream().wait_stream(stream)


def _update(optimizer: FP16_UnfusedOptimizer, closure: None = None) -> bool:
    """`FP16_UnfusedOptimizer.step` for bfloat16: the norm stays on the device, and no gradient is looked at."""
    halves = [parameter for group in optimizer.fp16_groups for parameter in group]
    singles = [parameter for group in optimizer.fp32_groups for parameter in group]
    for half, single in zip(halves, singles, strict=True):
        single.grad = torch.zeros_like(single) if half.grad is None else half.grad.to(single.dtype)
    gradients = [single.grad for single in singles]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    if optimizer.clip_grad > 0:
        torch._foreach_mul_(gradients, (optimizer.clip_grad / (norm + 1e-6)).clamp(max=1.0))
    optimizer._global_grad_norm, optimizer.overflow = norm, False
    optimizer.optimizer.step()
    for single in singles:
        single.grad = None
    with torch.no_grad():
        torch._foreach_copy_(halves, singles)
    return False


class ZeroTrainer(TorchTrainer):
    """Weights in the case's precision, master weights and AdamW states in float32, sharded by stage."""

    def __init__(self, plan: Plan, device: Device) -> None:
        self._plan = plan
        self._spec = plan.spec
        self._device = torch_device(device)
        self._feed = Feed(plan, self._device)
        self._joins = not joined()
        init_ranks(plan, self._device, device.collective_backend)
        set_matmul_precision(self._spec.contract.precision)
        check_gradients(self._spec.contract.precision)
        self._kernels = Kernels.of(plan)
        config = json.loads(plan.worker.files[CONFIG])
        model = self._make(config)
        self._optimizer = self._adamw(model)
        set_learning_rate(self._optimizer.param_groups, 0.0)  # no weight decay while states are made
        self._engine = deepspeed.initialize(model=model, optimizer=self._optimizer, config=config)[0]
        reset_step_count(self._optimizer)
        remove_host_waits(self._engine.optimizer, self._spec)
        self._measure_calls(device)
        self._step = 0

    def _make(self, config: Mapping[str, Any]) -> torch.nn.Module:
        """The model with its weights; at stage 3 no rank holds a whole parameter for longer than it is made."""
        contract, sharded = self._spec.contract, self._spec.tuning.sharding_stage == 3
        # zero.Init takes the dtype from the config; given float32, it rounds to 16 bits (deepspeed 0.19.8)
        making = (
            deepspeed.zero.Init(config_dict_or_path=config)
            if sharded
            else default_dtype(rest_dtype(contract.precision))
        )
        with self._device, making:
            model = construct_model(self._spec, self._kernels)
        self.parameter_count = count_parameters(model)
        for name, parameter in model.named_parameters():
            if sharded:
                self._fill_shard(name, parameter)
            else:
                self._fill(name, parameter)
        return model.train()

    def _fill(self, name: str, parameter: torch.Tensor) -> None:
        """Set one whole parameter to its initial value."""
        fill_parameter(name, parameter, self._spec.model, self._spec.contract.seed)

    def _fill_shard(self, name: str, parameter: Any) -> None:
        """Set this rank's shard of a parameter of ZeRO-3: each rank draws its own, at once."""
        shard, spec = parameter.ds_tensor, self._spec
        start = torch.distributed.get_rank() * shard.ds_numel
        fill_slice(name, tuple(parameter.ds_shape), shard, start, spec.model, spec.contract.seed)

    def _adamw(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        settings = self._spec.contract.optimizer
        if self._spec.framework.get("optimizer", "torch") == "torch":
            return adamw(model, settings, self._device)
        from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam

        on_host = self._device.type == "cpu" or offloads(self._spec) != "none"
        kind = DeepSpeedCPUAdam if on_host else FusedAdam
        groups = parameter_groups(model, settings.weight_decay)
        with compiling():
            return kind(groups, lr=settings.lr, betas=(settings.beta1, settings.beta2), eps=settings.eps)

    @property
    def _trained(self) -> torch.nn.Module:
        return self._engine.module

    def _train_step(self) -> StepOutput:
        """All micro batches; the engine reduces, clips and updates with the last."""
        batch, contract = self._plan.batch, self._spec.contract
        rate = learning_rate(contract.optimizer, self._step + 1, contract.steps)
        set_learning_rate(self._optimizer.param_groups, rate)
        sums, skipped = StepSums(), self._engine.skipped_steps
        for _ in range(batch.gradient_accumulation):
            inputs, labels = self._feed.next()
            loss, weight = self._loss(inputs, labels), self._feed.weight
            self._engine.backward(loss if weight == 1.0 else loss * weight)
            self._engine.step()
            sums.add(loss, self._feed.learnt, weight)
        self._step += 1
        norm = self._engine.get_global_grad_norm()
        return StepOutput(
            loss=deferred(sums.mean_loss()),
            tokens=sums.tokens,
            grad_norm=None if norm is None else deferred(norm),
            skipped=self._engine.skipped_steps > skipped,
        )

    def _loss(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self._engine(inputs, labels)
        return loss

    def expert_tokens(self) -> list[list[int]] | None:
        """Tokens of each expert of each mixture on this rank; None for a dense model."""
        return expert_tokens(self._engine.module)

    def close(self) -> None:
        """Take the engine apart, let the data go, and leave the process group if it was made here."""
        self._feed.close()
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.destroy()
        if self._joins:
            leave_ranks()
