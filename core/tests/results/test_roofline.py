"""The place of a run on the roofline: by measured rates, by assumed ones, and without any."""

from __future__ import annotations

from dataclasses import replace

import llmperf_schemas
import pytest
from llmperf.files import json_files
from llmperf.results.roofline import measured_peak, roofline
from llmperf.types import Plan


@pytest.fixture
def plan():
    return json_files.convert(llmperf_schemas.example("plan"), Plan, "plan")


def test_a_step_below_the_ridge_is_bound_by_memory(plan):
    slow_memory = replace(plan.rates, memory_bytes_per_second=1e9)
    line = roofline(replace(plan, rates=slow_memory), 0.5)
    assert line.bound == "memory"
    assert line.compute_flops_per_second == plan.rates.matmul_flops_per_second["fp32"] / 2  # two ranks share the device
    assert line.attainable_flops_per_second == pytest.approx(line.flops_per_byte * 0.5e9)
    assert line.share_of_attainable == pytest.approx(line.flops_per_step / 0.5 / line.attainable_flops_per_second)


def test_intensity_is_known_without_rates(plan):
    line = roofline(replace(plan, rates=None), None)
    assert line.flops_per_byte > 1
    assert (line.bound, line.ridge_flops_per_byte, line.achieved_flops_per_second) == (None, None, None)


def test_a_model_whose_flops_an_extension_counts_has_no_place(plan):
    assert roofline(replace(plan, flops=replace(plan.flops, counted_by="mixture")), 0.5) is None


def test_assumed_rates_give_a_bound_but_no_measured_peak(plan):
    assumed = replace(plan, rates=replace(plan.rates, basis="assumed"))
    assert roofline(assumed, 0.5).rates_basis == "assumed"
    assert measured_peak(assumed) is None


def test_rates_of_another_precision_are_not_used(plan):
    other = replace(plan, rates=replace(plan.rates, matmul_flops_per_second={"bf16": 1e12}))
    assert measured_peak(other) is None
    assert roofline(other, 0.5).bound is None


def test_recomputation_raises_the_intensity_that_is_computed(plan):
    tuning = replace(plan.spec.tuning, gradient_checkpointing=True)
    again = replace(plan, spec=replace(plan.spec, tuning=tuning))
    assert roofline(again, 0.5).flops_per_step > 1.2 * roofline(plan, 0.5).flops_per_step
