"""Training in pipeline stages, by the schedules of `torch.distributed.pipelining`: the parts of a rank, the trainer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from llmperf.types import StepOutput
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)
from torch.distributed.tensor.parallel import loss_parallel

from llmperf_pytorch.ddp import DdpTrainer
from llmperf_pytorch.layouts.sharding import rank_mesh, total_norm
from llmperf_pytorch.layouts.tensor_parallel import divide_model, whole
from llmperf_pytorch.layouts.trainer import ShardedTrainer
from llmperf_pytorch.losses import deferred, mean_cross_entropy
from llmperf_pytorch.models import construct_model, count_parameters, recompute_blocks, set_buffers
from llmperf_pytorch.precision import rest_dtype

if TYPE_CHECKING:
    from llmperf.types import RunSpec


class Stage(nn.Module):
    """Some blocks of a model, under their names in the whole model; the first stage embeds, the last has head and loss.

    `forward(ids or hidden, labels)` gives hidden states [batch, seq_len, width], on the last stage the mean loss [1].
    """

    def __init__(self, model: nn.Module, spec: RunSpec, index: int, stages: int, autocast: Autocast) -> None:
        super().__init__()
        each = spec.model.layers // stages
        self.first, self.last = index == 0, index == stages - 1
        self.model = part_of(model.get_submodule("model"), range(index * each, (index + 1) * each))
        self.lm_head = model.get_submodule("lm_head") if self.last else None
        if not self.first:
            self.model.embed_tokens = None
        if not self.last:
            self.model.norm = None
        self._autocast = autocast
        self._seq_len = spec.contract.seq_len  # of a whole sequence: sequence parallelism divides hidden states
        recompute_blocks(self.model.layers.children(), spec.tuning)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Labels [batch, seq_len] are for the last stage only."""
        with self._autocast():
            hidden = self.model.embed(inputs) if self.first else inputs
            hidden = self.model.run(hidden, self._seq_len)
            if not self.last:
                return hidden
            assert self.lm_head is not None
            logits = self.lm_head(self.model.norm(hidden))
        assert labels is not None
        return whole(mean_cross_entropy(logits, labels)).reshape(1)


Autocast = Callable[[], AbstractContextManager[object]]


def part_of(decoder: nn.Module, places: Sequence[int]) -> Any:
    """A decoder with some of its blocks, which it shares with the whole one."""
    part: Any = copy.copy(decoder)
    part._modules, part._buffers = dict(decoder._modules), dict(decoder._buffers)
    blocks = list(decoder.get_submodule("layers").children())
    part.layers = nn.ModuleDict({str(place): blocks[place] for place in places})
    return part


class PipelineTrainer(ShardedTrainer):
    """Each rank holds `virtual_stages` stages; their weights and AdamW states are float32, 16 bits are by autocast.

    Data-parallel ranks hold replicas, whose gradients are averaged when all micro batches are through.
    """

    def _make(self) -> torch.nn.Module:
        """The whole model without memory."""
        spec = self._plan.spec
        once = replace(spec, tuning=replace(spec.tuning, gradient_checkpointing=False))  # stages see to it
        with torch.device("meta"):
            model = construct_model(once, self._kernels)
        self.parameter_count = count_parameters(model)
        return model.train()

    def _distribute(self, model: torch.nn.Module) -> torch.nn.Module:
        spec = self._plan.spec
        self._mesh = rank_mesh(self._plan.layout, self._device.type)
        ranks, place = self._mesh["pipeline"].size(), self._mesh["pipeline"].get_local_rank()
        count = ranks * spec.tuning.virtual_stages
        indexes = range(place, count, ranks)
        stages = torch.nn.ModuleList([Stage(model, spec, index, count, self._cast) for index in indexes])
        if self._plan.layout.tensor_parallel > 1:
            for stage in stages:
                divide_model(stage, spec, self._mesh["tensor"])
        stages.to_empty(device=self._device)
        set_buffers(stages, self._device)
        self._shards = [shard for stage in stages for shard in self._shards_of(stage)]
        for shard in self._shards:
            shard.fill(spec.model, spec.contract.seed)
        self._first, self._last = place == 0, place == ranks - 1
        self._reports = self._last and self._mesh["tensor"].get_local_rank() == 0
        self._stages, self._replicas = self._mesh["pipeline"].get_group(), self._mesh["replicate"].get_group()
        self._schedule = self._make_schedule(list(stages), indexes, count)
        return stages.train()

    def _make_schedule(self, stages: list[Any], indexes: range, count: int) -> Any:
        parts = [
            PipelineStage(stage, index, count, self._device, *self._shapes(stage), group=self._stages)
            for index, stage in zip(indexes, stages, strict=True)
        ]
        batches, tuning = self._plan.batch.gradient_accumulation, self._plan.spec.tuning
        settings = {"n_microbatches": batches, "loss_fn": self._share}
        schedule: Any
        if tuning.pipeline_schedule == "1f1b":
            schedule = Schedule1F1B(parts[0], **settings)
        elif tuning.pipeline_schedule == "interleaved":
            schedule = ScheduleInterleaved1F1B(parts, **settings)
        else:
            schedule = ScheduleInterleavedZeroBubble(parts, **settings)
        schedule.scale_grads = False  # no argument of torch 2.6, which never divides gradients
        return schedule

    def _shapes(self, stage: Stage) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and outputs without memory, so that ranks need not tell each other their shapes."""
        batch, model = self._plan.batch, self._plan.spec.model
        ids = torch.empty(batch.micro_batch, batch.seq_len, dtype=torch.int64, device="meta")
        parts = self._plan.layout.tensor_parallel if self._plan.layout.sequence_parallel else 1
        shape = (batch.micro_batch, batch.seq_len // parts, model.hidden_size)
        dtype = rest_dtype(self._contract.precision)
        hidden = torch.empty(*shape, dtype=dtype, device="meta", requires_grad=True)
        loss = torch.empty(1, device="meta", requires_grad=True)
        return ids if stage.first else hidden, loss if stage.last else hidden

    def _share(self, loss: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        """Contribution of one micro batch to the loss of the step."""
        share = loss.sum() / self._plan.batch.gradient_accumulation
        self._shares.append(share.detach())
        return self._scaler.scale(share)

    def _cast(self) -> AbstractContextManager[object]:
        return DdpTrainer._autocast(self)

    def _train_step(self) -> StepOutput:
        """All micro batches through the pipeline, gradients averaged over replicas, one update."""
        batches = self._plan.batch.gradient_accumulation
        micro = [self._feed.next() for _ in range(batches)]
        inputs = [torch.cat([ids for ids, _ in micro])] if self._first else []
        self._shares: list[torch.Tensor] = []
        with loss_parallel() if self._plan.layout.tensor_parallel > 1 else nullcontext():
            if self._last:
                labels = torch.cat([labels for _, labels in micro])
                self._schedule.step(*inputs, labels=labels, target=labels)
            else:
                self._scaler.scale(torch.zeros((), device=self._device))  # without a loss it has no scale
                self._schedule.step(*inputs)
        norm, skipped = self._update()
        self._step += 1
        batch = self._plan.batch
        return StepOutput(
            loss=deferred(torch.stack(self._shares).sum()) if self._reports else None,
            tokens=batch.micro_batch * batches * batch.seq_len if self._reports else 0,
            grad_norm=None if norm is None else deferred(norm),
            skipped=skipped,
        )

    def _take_gradients(self) -> None:
        """Averaged over the replicas of this rank's stages."""
        super()._take_gradients()
        replicas = self._plan.layout.data_parallel
        if replicas == 1:
            return
        gradients = [shard.local.grad for shard in self._shards if shard.local.grad is not None]
        torch._foreach_div_(gradients, replicas)
        for gradient in gradients:
            torch.distributed.all_reduce(gradient, group=self._replicas)

    def _clip(self, largest: float) -> torch.Tensor:
        norm = total_norm(self._shards, [self._stages])
        torch.nn.utils.clip_grads_with_norm_([shard.local for shard in self._shards], largest, norm)
        return norm
