"""Training a model that ranks share."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch.distributed.tensor.parallel import loss_parallel

from llmperf_pytorch.ddp import DdpTrainer
from llmperf_pytorch.layouts.experts import ExpertRanks, ExpertShard
from llmperf_pytorch.layouts.sharding import (
    Shard,
    begin_micro_batch,
    rank_mesh,
    settle_shards,
    shard_model,
    total_norm,
)
from llmperf_pytorch.layouts.tensor_parallel import divide_model, whole
from llmperf_pytorch.models import construct_model, count_parameters, set_buffers
from llmperf_pytorch.optimizers import adamw_of
from llmperf_pytorch.precision import default_dtype, held_dtype
from llmperf_pytorch.processes import own_rank

if TYPE_CHECKING:
    from llmperf.types import Device, Plan, StepOutput


class ShardedTrainer(DdpTrainer):
    """Weights and AdamW states in shards, float32 or pure bf16; blocks are gathered in the dtype of products."""

    _experts: ExpertRanks | None = None

    def __init__(self, plan: Plan, device: Device) -> None:
        super().__init__(plan, device)
        self._measure_calls(device)

    def _make(self) -> torch.nn.Module:
        """The model without memory: no rank ever holds a whole copy in float32."""
        with torch.device("meta"), default_dtype(held_dtype(self._contract.precision)):
            model = construct_model(self._plan.spec, self._kernels)
        self.parameter_count = count_parameters(model)
        return model.train()

    def _distribute(self, model: torch.nn.Module) -> torch.nn.Module:
        spec = self._plan.spec
        self._mesh = rank_mesh(self._plan.layout, self._device.type)
        if self._plan.layout.tensor_parallel > 1:
            divide_model(model, spec, self._mesh["tensor"])
        if self._plan.layout.expert_parallel > 1:
            self._experts = ExpertRanks(self._plan.layout, self._device.type)
            self._experts.divide(model)
        left_out = self._experts.parameters(model) if self._experts else set()
        self._sharded = shard_model(model, spec, self._mesh, left_out)
        self._materialise(model)
        self._shards = self._shards_of(model)
        for shard in self._shards:
            shard.fill(spec.model, spec.contract.seed)
        return model

    def _materialise(self, model: torch.nn.Module) -> None:
        """Give shards and buffers memory, and buffers their values."""
        model.to_empty(device=self._device)
        settle_shards(model)
        set_buffers(model, self._device)

    def _shard(self, name: str, parameter: torch.nn.Parameter) -> Shard:
        return Shard(name, parameter)

    def _shards_of(self, model: torch.nn.Module) -> list[Shard]:
        shards = [self._shard(name, parameter) for name, parameter in model.named_parameters()]
        if self._experts is None:
            return shards
        own = self._experts.parameters(model)
        return [
            ExpertShard(shard.name, shard.parameter, self._experts) if shard.parameter in own else shard
            for shard in shards
        ]

    def _make_optimizer(self) -> torch.optim.Optimizer:
        named = [(shard.name, shard.local) for shard in self._shards if shard.local.numel()]
        return adamw_of(named, self._contract.optimizer, self._device)

    def _synchronised(self, last: bool) -> AbstractContextManager[None]:
        begin_micro_batch(self._sharded, self._plan.layout.sharding_stage, last=last)
        return loss_parallel() if self._plan.layout.tensor_parallel > 1 else nullcontext()

    def _loss(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return whole(super()._loss(inputs, labels))

    def _propagate(self, loss: torch.Tensor, *, last: bool) -> None:
        loss.backward()  # waits are measured in the calls of collectives

    def _train_step(self) -> StepOutput:
        """One optimiser step; of the ranks that train on the same sequences, the first one reports them."""
        output = super()._train_step()
        first = self._plan.layout.coordinate(own_rank(), "tensor") == 0
        return output if first else replace(output, loss=None, tokens=0)

    def _autocast(self) -> AbstractContextManager[object]:
        return nullcontext()  # parameters are gathered in the case's precision

    def _take_gradients(self) -> None:
        for shard in self._shards:
            shard.take_gradient()

    def _clip(self, largest: float) -> torch.Tensor:
        norm = total_norm(self._shards)
        torch.nn.utils.clip_grads_with_norm_([shard.local for shard in self._shards], largest, norm)
        return norm

    def _drop_gradients(self) -> None:
        for shard in self._shards:
            shard.drop_gradient()

    def _found_overflow(self) -> list[torch.Tensor]:
        """Each rank has looked at its own shards: an overflow in one is an overflow of all."""
        flags = super()._found_overflow()
        for flag in flags:
            torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)
        return flags
