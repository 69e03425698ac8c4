"""The analytic form against traces of the frameworks' own code."""

from __future__ import annotations

import pytest
from llmperf.estimating.analytic import analytic_trace
from llmperf.planning.build import plan_only
from llmperf.planning.states import Request
from llmperf.running.step_traces import step_traces

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

WITHIN = 0.15


@pytest.mark.parametrize(
    ("case", "on"),
    [
        ("llama2_7b_lora", "A100-SXM4-40GB:1x1"),
        pytest.param("baichuan2_13b_pretrain_zero", "H800:2x8", marks=pytest.mark.long),
        pytest.param("llama2_7b_pretrain_megatron", "A100-SXM4-40GB:1x8", marks=pytest.mark.long),
    ],
)
def test_peaks_of_the_published_cases_agree(case, on):
    plan = plan_only(Request(case=case, on=on)).plan
    traced = step_traces(plan, lambda line: None)
    assert traced.stages[0].method == "fake tensors", traced.notes
    analytic = analytic_trace(plan, 0).memory.peak_bytes
    assert analytic == pytest.approx(traced.stages[0].memory.peak_bytes, rel=WITHIN)
