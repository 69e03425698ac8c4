"""FLOPs and bytes of single calls."""

from __future__ import annotations

import pytest
import torch
from llmperf_pytorch.tracing.operations import work_of

ROWS, INNER, COLUMNS = 512, 4096, 1024


def empty(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.bfloat16, device="meta")


LEFT, RIGHT, RESULT = empty(ROWS, INNER), empty(INNER, COLUMNS), empty(ROWS, COLUMNS)
BYTES = 2 * (ROWS * INNER + INNER * COLUMNS + ROWS * COLUMNS)


@pytest.mark.parametrize(
    ("operation", "args", "kwargs", "read_beside"),
    [
        (torch.ops.aten.mm.default, (LEFT, RIGHT), {}, 0),
        (torch.ops.aten.mm.out, (LEFT, RIGHT), {"out": RESULT}, 0),
        (torch.ops.aten.addmm.default, (RESULT, LEFT, RIGHT), {}, 2 * RESULT.numel()),
        (torch.ops.aten.addmm_.default, (RESULT, LEFT, RIGHT), {}, 2 * RESULT.numel()),
    ],
)
def test_each_form_of_a_product_counts_the_same(operation, args, kwargs, read_beside):
    work = work_of(operation, args, kwargs, RESULT)
    assert (work.flops, work.shape) == (2.0 * ROWS * INNER * COLUMNS, (1, ROWS, COLUMNS, INNER))
    assert work.bytes == BYTES + read_beside
