"""Stand-ins for megatron-core, beside torch's, so that its trainer runs on tensors without data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed
from llmperf.errors import UserError
from llmperf.types import Plan, StepTrace
from llmperf_torchkit.tracing.device import HOST_WAITS, NAME
from llmperf_torchkit.tracing.step import Build, traced_step

from llmperf_megatron_core.cpu import stand_in_for_cuda


def trace(plan: Plan, rank: int, build: Build) -> StepTrace:
    """A step of one rank; not with layers of Transformer Engine, or with tokens that ranks send one another."""
    options, layout = plan.spec.framework, plan.layout
    if options.get("transformer_engine") is True:
        raise UserError("megatron_core does not trace Transformer Engine: expected framework.transformer_engine=false")
    if options.get("dispatcher") == "alltoall" and layout.expert_parallel > 1:
        raise UserError(
            "megatron_core does not trace messages of unequal sizes: expected framework.dispatcher=allgather"
        )
    return traced_step(plan, rank, build, stand_ins=(megatron_without_device, lambda: equal_experts(plan)))


@contextmanager
def megatron_without_device() -> Iterator[str]:
    """megatron-core finds the traced device type where it looks for CUDA."""
    stand_in_for_cuda(f"{NAME}:0")
    from megatron.core.distributed import param_and_grad_buffer as buffers
    from megatron.core.optimizer import clip_grads

    def own_object(gathered: list[Any], value: Any, *_: Any, **__: Any) -> None:
        gathered[:] = [value] * len(gathered)

    def norm(_: int, __: object, tensors: list[list[torch.Tensor]], *___: object) -> tuple[torch.Tensor, None]:
        return torch.tensor([torch.norm(part).item() for part in tensors[0]], device=f"{NAME}:0").norm()[None], None

    @contextmanager
    def each_by_itself(*_: Any, **__: Any) -> Iterator[Any]:
        """Communication of several buckets, for which torch has one operation that fake tensors lack."""
        works: list[Any] = []

        def kept(call: Callable[..., Any]) -> Callable[..., None]:
            return lambda *arguments, **named: works.append(call(*arguments, **named))

        with (
            patch.object(buffers, "dist_reduce_scatter_func", kept(torch.distributed.reduce_scatter_tensor)),
            patch.object(buffers, "dist_all_gather_func", kept(torch.distributed.all_gather_into_tensor)),
            patch.object(torch.distributed, "all_reduce", kept(torch.distributed.all_reduce)),
        ):
            yield SimpleNamespace(wait=lambda: [work.wait() for work in works])

    with (
        patch.object(torch.distributed, "all_gather_object", own_object),
        patch.object(clip_grads, "l2_norm_impl", norm),  # megatron-core's makes a tensor from a list of tensors
        patch.object(buffers, "_coalescing_manager", each_by_itself),
    ):
        yield "megatron-core's CUDA: a device that computes nothing; all ranks have this rank's groups of parameters"


@contextmanager
def equal_experts(plan: Plan) -> Iterator[str]:
    """Experts take equally many tokens, which the host would read."""
    from megatron.core.transformer.moe.experts import SequentialMLP

    mixture, forward = plan.spec.model.mixture, SequentialMLP.forward

    def chosen(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        HOST_WAITS.note("masked_select")
        assert mixture is not None
        rows = mask.numel() * mixture.top_k // mixture.experts
        places = torch.empty(rows, dtype=torch.int64, device=values.device)
        return values.expand_as(mask).flatten().index_select(0, places)

    def computed(experts: SequentialMLP, rows: torch.Tensor, _: torch.Tensor, probs: torch.Tensor) -> Any:
        part, over = divmod(len(rows), experts.num_local_experts)
        sizes = [part + (place < over) for place in range(experts.num_local_experts)]
        return forward(experts, rows, SimpleNamespace(tolist=lambda: sizes), probs)

    with patch.object(torch.Tensor, "masked_select", chosen), patch.object(SequentialMLP, "forward", computed):
        yield "tokens of experts: equally many of each"
