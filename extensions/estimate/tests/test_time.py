"""Roofline, links and schedules: arithmetic that a reader can repeat by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmperf.types import DeviceRates, Layout, LinkRate, MatmulRate, TracedCollective, TracedOperation
from llmperf_estimate.calibration import calibration
from llmperf_estimate.seconds import (
    collective_seconds,
    operation_seconds,
    scope_of,
    sent_bytes,
    tile_waste,
    with_network,
)
from llmperf_estimate.step_time import bubble_seconds, step_time

LAYOUT = Layout(nodes=2, devices_per_node=8, tensor_parallel=1, pipeline_parallel=1, data_parallel=16)
RATES = DeviceRates(
    device_model="Acme A1",
    basis="assumed",
    matmul_flops_per_second={"bf16": 2e14},
    attention_flops_per_second={"bf16": 1e14},
    memory_bytes_per_second=1e12,
    launch_seconds=5e-6,
    memory_bytes=2**34,
    links=(
        LinkRate(scope="node", bytes_per_second=1e11, latency_seconds=1e-5, source="test"),
        LinkRate(scope="cluster", bytes_per_second=1e10, latency_seconds=2e-5, source="test"),
    ),
    source="test",
    date="2026-01-01",
)


def operation(kind="matmul", flops=0.0, size=0, shape=(), dtype="bf16", kernels=1):
    return TracedOperation(
        name="test", kind=kind, phase="forward", dtype=dtype, flops=flops, bytes=size, shape=shape, kernels=kernels
    )


def collective(pattern, size, ranks):
    return TracedCollective(collective=pattern, bytes=size, ranks=tuple(ranks), phase="backward", overlaps=False)


def test_large_products_are_limited_by_flops_and_thin_ones_by_bytes():
    large = operation(flops=2 * 4096**3, size=3 * 2 * 4096**2, shape=(1, 4096, 4096, 4096))
    assert operation_seconds(large, RATES) == pytest.approx(2 * 4096**3 / 2e14)
    thin = operation(flops=2 * 4096 * 4096 * 128, size=10**9, shape=(1, 4096, 128, 4096))
    assert operation_seconds(thin, RATES) == pytest.approx(1e-3)
    assert operation_seconds(operation("elementwise", size=8), RATES) == 5e-6
    assert operation_seconds(operation("elementwise", size=8, kernels=3), RATES) == pytest.approx(15e-6)


def test_a_product_that_was_measured_takes_as_long_as_it_was_measured():
    measured = MatmulRate(dtype="bf16", shape=(1, 4096, 256, 1024), flops_per_second=5e13)
    rates = replace(RATES, matmuls=(measured,))
    size = 2 * 4096 * 256 * 1024
    for rows, columns in ((4096, 256), (256, 4096)):
        product = operation(flops=size, shape=(1, rows, columns, 1024))
        assert operation_seconds(product, rates) == pytest.approx(size / 5e13)


@given(rows=st.integers(1, 10**5), columns=st.integers(1, 10**5))
def test_whole_tiles_waste_nothing_and_partial_ones_less_than_a_tile(rows, columns):
    assert tile_waste((1, 128 * rows, 128 * columns, 7)) == 1
    most = (1 + 127 / rows) * (1 + 127 / columns)
    assert 1 <= tile_waste((1, rows, columns, 7)) <= most * (1 + 1e-9)


def test_an_attention_kernel_with_a_rate_of_its_own_has_that_rate():
    rates = replace(RATES, attention_flops_per_second={"bf16": 1e14, "cudnn bf16": 2e14})
    flash = operation("attention", flops=1e12)
    cudnn = replace(flash, name="aten._scaled_dot_product_cudnn_attention")
    assert operation_seconds(flash, rates) == pytest.approx(2 * operation_seconds(cudnn, rates))


def test_an_unknown_rate_is_named():
    with pytest.raises(ValueError, match="Acme A1: no rate of fp32 matmul is known"):
        operation_seconds(operation(flops=1.0, dtype="fp32"), RATES)
    with pytest.raises(ValueError, match="the rate of links between nodes is not known"):
        collective_seconds(collective("all_reduce", 8, range(16)), replace(RATES, links=RATES.links[:1]), LAYOUT)


@given(size=st.integers(1, 10**12), ranks=st.integers(2, 16))
def test_an_all_reduce_sends_as_much_as_a_reduce_scatter_and_an_all_gather(size, ranks):
    def sent(pattern):
        return sent_bytes(collective(pattern, size, range(ranks)))

    assert sent("all_reduce") == pytest.approx(sent("reduce_scatter") + sent("all_gather"))
    assert size <= sent("all_reduce") < 2 * size


def test_seconds_of_collectives_by_hand():
    node = collective("all_reduce", 8 * 10**9, range(8))
    assert collective_seconds(node, RATES, LAYOUT) == pytest.approx(2 * 7 / 8 * 0.08 + 14e-5)
    assert collective_seconds(collective("all_gather", 10**9, [3]), RATES, LAYOUT) == 0
    assert collective_seconds(collective("send_receive", 10**9, [7, 8]), RATES, LAYOUT) == pytest.approx(0.1 + 2e-5)


def test_ranks_of_one_node_share_its_adapters_in_one_ring_and_have_their_own_in_separate_rings():
    whole = collective("all_gather", 16 * 10**9, range(16))
    pair = collective("all_gather", 2 * 10**9, [0, 8])
    assert scope_of(whole.ranks, LAYOUT) == scope_of(pair.ranks, LAYOUT) == "cluster"
    assert collective_seconds(whole, RATES, LAYOUT) == pytest.approx(15e9 / 8e10 + 15 * 2e-5)
    assert collective_seconds(pair, RATES, LAYOUT) == pytest.approx(1e9 / 1e10 + 2e-5)


def test_a_network_of_200_gbit_replaces_what_is_assumed():
    rates = with_network(RATES, 25e9, 8)
    whole = collective("all_gather", 16 * 10**9, range(16))
    assert collective_seconds(whole, rates, LAYOUT) == pytest.approx(15e9 / 25e9 + 15 * 2e-5)


def test_bubbles_by_schedule():
    assert bubble_seconds([1.0], "1f1b") == 0
    assert bubble_seconds([1.0] * 4, "1f1b") == 3
    assert bubble_seconds([1.0] * 4, "interleaved", 3) == 1
    assert bubble_seconds([1.0] * 4, "zero_bubble") == pytest.approx(1)
    assert bubble_seconds([1.0, 2.0], "1f1b") == 1


@pytest.mark.parametrize("overlaps", [False, True])
def test_the_parts_of_a_step_add_up_and_overlapped_communication_is_hidden(stub_plan, overlaps):
    from llmperf_stub.trace import stub_trace
    from llmperf_stub.vendor import llmperf_device_rates

    plan = stub_plan()
    trace = stub_trace(plan, 0)
    trace = replace(trace, collectives=tuple(replace(item, overlaps=overlaps) for item in trace.collectives))
    time, _ = step_time(plan, {0: trace}, llmperf_device_rates("Stub S1"))
    assert time.seconds == pytest.approx(
        time.compute_seconds + time.communication_seconds + time.bubble_seconds + time.loss_seconds
    )
    assert time.loss_seconds == pytest.approx((1 - calibration().efficiency["fake tensors"]) * time.seconds)
    assert time.compute_seconds == pytest.approx(30 * 2e-3 + 4 * 1e-3 + 1e-2)
    waiting = 1e7 / 1e9 + 2e-5
    assert time.communication_seconds == pytest.approx(0 if overlaps else waiting)
    assert time.hidden_communication_seconds == pytest.approx(waiting if overlaps else 0)
