"""Traces that contradict themselves or their plan."""

from dataclasses import replace

import pytest
from llmperf.planning.build import plan_only
from llmperf.planning.states import Selection, Site
from llmperf_estimate.traces import analytic_trace, wrong_trace


@pytest.fixture(scope="module")
def plan():
    return plan_only(Selection("default", framework="pytorch"), Site(on="A100-SXM4-80GB:1x2")).plan


def product(trace):
    return next(place for place, operation in enumerate(trace.operations) if operation.kind == "matmul")


def with_product(trace, **changes):
    operations = list(trace.operations)
    place = product(trace)
    operations[place] = replace(operations[place], **changes)
    return replace(trace, operations=tuple(operations))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda trace: trace, None),
        (lambda trace: replace(trace, rank=5), "rank: expected 0, which was asked for, found 5"),
        (lambda trace: replace(trace, parameters=7), "found 7"),
        (lambda trace: replace(trace, memory=replace(trace.memory, peak_bytes=2**50)), "memory.at_peak: expected"),
        (lambda trace: with_product(trace, shape=(1, 2, 3, 4)), "expected 48 of the shape (1, 2, 3, 4)"),
        (
            lambda trace: replace(trace, operations=()),
            "FLOPs of products in a step, found 0; a trainer's tensors belong on the device that `Device.places` names",
        ),
        (
            lambda trace: replace(trace, collectives=()),
            "collectives: expected one between 2 data-parallel ranks, which average their gradients, found none",
        ),
        (
            lambda trace: replace(trace, collectives=tuple(replace(one, ranks=(0,)) for one in trace.collectives)),
            "collectives: expected one between 2 data-parallel ranks",
        ),
    ],
)
def test_a_trace_that_contradicts_its_plan_is_refused(plan, change, message):
    answer = wrong_trace(change(analytic_trace(plan, 0)), plan, 0)
    assert answer is None if message is None else message in answer
