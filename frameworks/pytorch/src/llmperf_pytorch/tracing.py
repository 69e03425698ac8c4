"""Steps of trainers with this package's blocks, without data, for `llmperf estimate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from llmperf_torchkit.tracing import step
from llmperf_torchkit.tracing.stand_ins import attention_by_pairs, visible_pairs

from llmperf_pytorch import attention

if TYPE_CHECKING:
    import torch
    from llmperf.types import Plan, StepTrace


def traced_step(
    plan: Plan,
    rank: int,
    build: step.Build,
    *,
    with_micro_batches: Callable[[Plan, int], Plan] | None = None,
    stand_ins: Sequence[Callable[[], AbstractContextManager[str]]] = (),
) -> StepTrace:
    """`llmperf_torchkit.tracing.step.traced_step` with FlexAttention as one operation."""
    all_of_them = (flex_attention_by_pairs, *stand_ins)
    return step.traced_step(plan, rank, build, with_micro_batches=with_micro_batches, stand_ins=all_of_them)


@contextmanager
def flex_attention_by_pairs() -> Iterator[str]:
    """FlexAttention's compiled kernels, which torch has for few types of devices, are single operations."""
    with (
        patch.object(attention, "_compiled_flex", lambda: _run),
        patch.object(attention, "block_mask", lambda seq_len, window, _: visible_pairs(seq_len, window)),
    ):
        yield "FlexAttention: one operation each way, which leaves out masked pairs"


def _run(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **options: Any) -> Any:
    output, log_sums = attention_by_pairs(query, key, value, options["block_mask"])
    return (output, log_sums) if options["return_lse"] else output
