"""Stand-ins for torchtitan, beside torch's, so that its trainer runs on tensors without data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
import torch._utils
from llmperf.types import Plan, StepTrace
from llmperf_torchkit import compiled
from llmperf_torchkit.tracing.device import NAME
from llmperf_torchkit.tracing.stand_ins import attention_by_pairs, visible_pairs
from llmperf_torchkit.tracing.step import Build, traced_step
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining import stage as stages
from torch.nn.attention.flex_attention import AuxOutput, BlockMask


def trace(plan: Plan, rank: int, build: Build) -> StepTrace:
    """A step of one rank."""
    return traced_step(
        plan, rank, build, stand_ins=(torchtitan_without_device, equal_experts, lambda: known_activations(plan))
    )


@contextmanager
def torchtitan_without_device() -> Iterator[str]:
    """torchtitan finds the traced device type where it asks torch for an accelerator. Entered before its import."""
    with patch.object(torch._utils, "_get_available_device_type", lambda: NAME):
        from torchtitan.distributed import ParallelDims, activation_checkpoint
        from torchtitan.models.common.attention import FlexAttention
        from torchtitan.models.common.decoder import Decoder
        from torchtitan.protocols.module import Module

    build, saved = ParallelDims.build_mesh, activation_checkpoint._get_default_save_ops

    def with_ranks(dims: ParallelDims) -> object:
        with unset_fake_temporarily():
            return build(dims)

    def attended(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **_: Any) -> Any:
        values, log_sums = attention_by_pairs(query, key, value, visible_pairs(query.shape[2], None))
        return values, AuxOutput(lse=log_sums)

    with (
        patch.object(ParallelDims, "build_mesh", with_ranks),
        patch.object(Module, "_init_self_parameters", lambda _: None),  # llmperf's trainer sets them afterwards
        patch.object(FlexAttention, "compiled_flex_attn", staticmethod(attended)),
        patch.object(Decoder, "_create_flex_attention_mask_for_document", lambda *_: BlockMask.__new__(BlockMask)),
        patch.object(
            activation_checkpoint, "_get_default_save_ops", lambda: saved() | {torch.ops.llmperf.flex_attention.default}
        ),
        patch.object(torch, "compile", lambda function, **_: compiled.compiled_forward(function)),
    ):
        yield "torchtitan's accelerator: one that computes nothing; its masks of FlexAttention are not made"


@contextmanager
def equal_experts() -> Iterator[str]:
    """Ranks send one another equally many tokens, whose numbers the host would read."""
    from torchtitan.models.common.token_dispatcher import AllToAllTokenDispatcher as Dispatcher

    def evenly(exchange: Any) -> Any:
        def exchanged(self: Dispatcher, rows: torch.Tensor, group: Any, received: list[int], _: list[int]) -> Any:
            part, over = divmod(len(rows), len(received))
            sizes = [part + (place < over) for place in range(len(received))]
            return exchange(self, rows, group, sizes, sizes)

        return exchanged

    names = ("_dispatch_token_exchange", "_combine_token_exchange")
    with patch.multiple(Dispatcher, **{name: evenly(getattr(Dispatcher, name)) for name in names}):
        yield "tokens of experts: equally many to each rank"


@contextmanager
def known_activations(plan: Plan) -> Iterator[str]:
    """A pipeline stage knows the shape of what its neighbours send, which it would read from a first message."""
    batch, layout, prepare = plan.batch, plan.layout, PipelineStage._pre_metadata_inference_backup
    positions = batch.seq_len // (layout.tensor_parallel if layout.sequence_parallel else 1)
    dtype = torch.bfloat16 if plan.spec.contract.precision == "bf16" else torch.float32

    def received(stage: PipelineStage, neighbour: int) -> Any:
        if neighbour > stage.stage_index:
            return stages._StageBackwardMeta(backward_metas=stages._derive_grad_metas(stage._stage_meta.outputs))
        shape = (batch.micro_batch, positions, plan.spec.model.hidden_size)
        states = torch.empty(shape, dtype=dtype, device=NAME, requires_grad=True)
        return stages._StageForwardMeta(forward_metas=stages.extract_tensor_metas((states,)))

    def asked(stage: PipelineStage) -> None:
        stage._inference_mode = stages.InferenceMode.DYNAMIC  # what ranks agree on by a message
        prepare(stage)

    with patch.multiple(
        PipelineStage, _recv_meta=received, _send_meta=lambda *_: None, _pre_metadata_inference_backup=asked
    ):
        yield "shapes of activations that a stage receives: from the plan"
