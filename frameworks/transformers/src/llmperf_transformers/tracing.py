"""A step of transformers' models on tensors without data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from llmperf.types import Plan, StepTrace
from llmperf_torchkit.tracing.device import HOST_WAITS, NAME
from llmperf_torchkit.tracing.step import Build, traced_step

from llmperf_transformers.limits import by_deepspeed


def trace(plan: Plan, rank: int, build: Build) -> StepTrace:
    """A step of one rank."""
    if not by_deepspeed(plan.spec):
        return traced_step(plan, rank, build, stand_ins=(one_document,))
    from llmperf_zero.tracing import STAND_INS, with_micro_batches

    return traced_step(plan, rank, build, with_micro_batches=with_micro_batches, stand_ins=(*STAND_INS, one_document))


@contextmanager
def one_document() -> Iterator[str]:
    """transformers reads from the positions that rows are not packed, and so needs no mask."""
    from transformers import masking_utils

    find = masking_utils.find_packed_sequence_indices

    def found(positions: Any) -> None:
        find(positions)
        if positions.device.type == NAME:
            HOST_WAITS.note("Tensor.item")

    with patch.object(masking_utils, "find_packed_sequence_indices", found):
        yield "transformers' masks: none, as of rows that are not packed"
