"""Training by DeepSpeed's pipeline engine."""

from __future__ import annotations

import json
from collections.abc import Iterator

import torch
from llmperf import learning_rate
from llmperf.types import Device, Plan, StepOutput
from llmperf_pytorch.kernels.choice import Kernels
from llmperf_torchkit.losses import deferred
from llmperf_torchkit.precision import adamw, set_learning_rate, set_matmul_precision
from llmperf_torchkit.processes import joined, leave_ranks, torch_device
from llmperf_torchkit.trainer import Feed, TorchTrainer
from llmperf_zero.config import CONFIG
from llmperf_zero.deepspeed_import import check_gradients, deepspeed, init_ranks, reset_step_count

from llmperf_megatron_deepspeed.builtin.pipeline import build_pipeline
from llmperf_megatron_deepspeed.builtin.shards import count_whole, sum_shared_gradients


class PipelineTrainer(TorchTrainer):
    """Weights in the case's precision, master weights and AdamW states in float32, these shared by data-parallel ranks.

    Only the first tensor-parallel rank of each last stage has a loss and tokens to report: the others work on the same.
    """

    def __init__(self, plan: Plan, device: Device) -> None:
        self._plan = plan
        self._contract = plan.spec.contract
        self._device = torch_device(device)
        self._joins = not joined()
        init_ranks(plan, self._device, device.collective_backend)
        set_matmul_precision(self._contract.precision)
        check_gradients(self._contract.precision)
        self._kernels = Kernels.of(plan)
        module, ranks = build_pipeline(plan.spec, plan.layout, self._kernels)
        self._optimizer = adamw(module, self._contract.optimizer, self._device)
        set_learning_rate(self._optimizer.param_groups, 0.0)  # no weight decay while states are made
        config = json.loads(plan.worker.files[CONFIG])
        self._engine = deepspeed.initialize(model=module, optimizer=self._optimizer, config=config)[0]
        reset_step_count(self._optimizer)
        if ranks.size > 1:
            sum_shared_gradients(self._engine, ranks)
        self.parameter_count = self._count(module)
        self._reports = self._engine.is_last_stage() and ranks.rank == 0
        reads = self._engine.is_first_stage() or self._engine.is_last_stage()
        self._feed = Feed(plan, self._device) if reads else None
        self._measure_calls(device)
        self._step = 0

    def _count(self, module: torch.nn.Module) -> int:
        """Parameters of the whole model: the stages' counts, added up over the pipeline."""
        own = count_whole(module, first_stage=self._engine.is_first_stage())
        if self._plan.layout.pipeline_parallel == 1:
            return own
        total = torch.tensor(own, device=self._device)
        torch.distributed.all_reduce(total, group=self._engine.grid.get_pipe_parallel_group())
        return int(total)

    @property
    def _trained(self) -> torch.nn.Module:
        return self._engine.module

    def _train_step(self) -> StepOutput:
        """All micro batches through the pipeline, gradients averaged over data-parallel ranks, one update."""
        rate = learning_rate(self._contract.optimizer, self._step + 1, self._contract.steps)
        set_learning_rate(self._optimizer.param_groups, rate)
        skipped = self._engine.skipped_steps
        self._engine.train_batch(self._micro_batches())
        self._step += 1
        batch, norm = self._plan.batch, self._engine.get_global_grad_norm()
        tokens = batch.micro_batch * batch.gradient_accumulation * batch.seq_len
        return StepOutput(
            loss=deferred(self._engine.dp_group_loss) if self._reports else None,
            tokens=tokens if self._reports else 0,
            grad_norm=None if norm is None else deferred(norm),
            skipped=self._engine.skipped_steps > skipped,
        )

    def _micro_batches(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]] | None:
        """Inputs, which the first stage takes, and labels, which the last does; None between them."""
        if self._feed is None:
            return None
        feed = self._feed
        return (feed.next() for _ in range(self._plan.batch.gradient_accumulation))

    def close(self) -> None:
        """Take the engine apart, let the data go, and leave the process group if it was made here."""
        if self._feed is not None:
            self._feed.close()
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.destroy()
        if self._joins:
            leave_ranks()
