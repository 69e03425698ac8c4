"""FLOPs and bytes of single calls."""

import pytest
import torch
from llmperf_torchkit.tracing.operations import work_of

pytestmark = pytest.mark.slow

ROWS, INNER, COLUMNS = 512, 4096, 1024


def empty(*shape):
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


GROUPS = 8
ENDS = torch.empty(GROUPS, dtype=torch.int32, device="meta")
TOKENS, EXPERTS = empty(ROWS, INNER), empty(GROUPS, INNER, COLUMNS)


@pytest.mark.parametrize(
    ("left", "right", "flops", "shape"),
    [
        (TOKENS, EXPERTS, 2.0 * ROWS * INNER * COLUMNS, (GROUPS, ROWS // GROUPS, COLUMNS, INNER)),
        (empty(3, INNER), EXPERTS, 2.0 * 3 * INNER * COLUMNS, (GROUPS, 0, COLUMNS, INNER)),
        (TOKENS.t(), RESULT, 2.0 * ROWS * INNER * COLUMNS, (GROUPS, INNER, COLUMNS, ROWS // GROUPS)),
    ],
)
def test_products_of_groups_count_each_row_once(left, right, flops, shape):
    result = empty(GROUPS, INNER, COLUMNS) if left.shape[0] == INNER else empty(left.shape[0], COLUMNS)
    work = work_of(torch.ops.aten._grouped_mm.default, (left, right, ENDS), {}, result)
    assert (work.flops, work.shape) == (flops, shape)


def test_attention_counts_values_that_are_narrower_than_keys():
    query, value = empty(1, 4, 128, 96), empty(1, 4, 128, 64)
    operation = torch.ops.aten._scaled_dot_product_flash_attention.default
    work = work_of(operation, (query, query, value, 0.0, True), {}, value)
    assert work.flops == 2.0 * 4 * 128 * 128 * (96 + 64) / 2
