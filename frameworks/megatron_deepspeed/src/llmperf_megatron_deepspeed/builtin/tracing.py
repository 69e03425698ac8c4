"""Stand-ins for the pipeline engine, beside DeepSpeed's, so that a stage runs on tensors without data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from deepspeed.runtime.pipe.engine import PipelineEngine
from llmperf.types import Device, Plan, StepTrace
from llmperf_pytorch.tracing import traced_step
from llmperf_torchkit.precision import rest_dtype
from llmperf_zero.tracing import STAND_INS, with_micro_batches

from llmperf_megatron_deepspeed.builtin.attention import forget_positions
from llmperf_megatron_deepspeed.builtin.trainer import PipelineTrainer


def trace_builtin(plan: Plan, rank: int) -> StepTrace:
    """A step of one rank of the built-in engine."""

    def build(plan: Plan, device: Device) -> PipelineTrainer:
        forget_positions()
        return PipelineTrainer(plan, device)

    stand_ins = (*STAND_INS, lambda: known_activations(plan))
    return traced_step(plan, rank, build, with_micro_batches=with_micro_batches, stand_ins=stand_ins)


@contextmanager
def known_activations(plan: Plan) -> Iterator[str]:
    """A stage knows the shape of what the stage before it sends, which it would read from a first message."""
    layout, batch = plan.layout, plan.batch
    positions = batch.seq_len // (layout.tensor_parallel if layout.sequence_parallel else 1)
    shape = [batch.micro_batch, positions, plan.spec.model.hidden_size]
    dtype = rest_dtype(plan.spec.contract.precision)

    def allocate(engine: Any, _: int) -> Any:
        return engine._allocate_or_extend_buffers(0, shape, dtype)

    with patch.object(PipelineEngine, "_recv_tensor_meta", allocate):
        yield "shapes of activations that a stage receives: from the plan"
