"""Training a model that ranks share."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch

from llmperf_pytorch.ddp import DdpTrainer
from llmperf_pytorch.layouts.mesh import rank_mesh
from llmperf_pytorch.layouts.sharding import begin_micro_batch, settle_shards, shard_model
from llmperf_pytorch.layouts.shards import shards_of, total_norm
from llmperf_pytorch.models import construct_model, set_buffers
from llmperf_pytorch.optimizers import adamw_of
from llmperf_pytorch.weights import count_parameters

if TYPE_CHECKING:
    from llmperf.types import Device, Plan


class ShardedTrainer(DdpTrainer):
    """Float32 weights and AdamW states in shards; blocks are gathered in the case's precision."""

    def __init__(self, plan: Plan, device: Device) -> None:
        super().__init__(plan, device)
        self._measure_calls(device)

    def _make(self) -> torch.nn.Module:
        """The model without memory: no rank ever holds a whole copy in float32."""
        with torch.device("meta"):
            model = construct_model(self._plan.spec)
        self.parameter_count = count_parameters(model)
        return model.train()

    def _distribute(self, model: torch.nn.Module) -> torch.nn.Module:
        spec = self._plan.spec
        self._mesh = rank_mesh(self._plan.layout, self._device.type)
        self._sharded = shard_model(model, spec, self._mesh)
        model.to_empty(device=self._device)
        settle_shards(model)
        set_buffers(model, self._device)
        self._shards = shards_of(model)
        for shard in self._shards:
            shard.fill(spec.model, spec.contract.seed)
        return model

    def _make_optimizer(self) -> torch.optim.Optimizer:
        named = [(shard.name, shard.local) for shard in self._shards if shard.local.numel()]
        return adamw_of(named, self._contract.optimizer, self._device)

    def _synchronised(self, last: bool) -> AbstractContextManager[None]:
        begin_micro_batch(self._sharded, self._plan.layout.sharding_stage, last=last)
        return nullcontext()

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
