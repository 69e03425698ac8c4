"""In which precision gradients are added up over micro batches."""

import json
from pathlib import Path

import pytest
from llmperf.planning.build import plan_only
from llmperf.planning.states import Planned, Selection, Site

PROGRAM = Path(__file__).with_name("gradient_sums_program.py")
MICRO_BATCHES = 32


def task(stage, accumulation):
    return {
        "framework": "zero",
        "contract": {"precision": "bf16", "seq_len": 16, "global_batch": MICRO_BATCHES},
        "tuning": {"sharding_stage": stage, "micro_batch": 1, "accumulation_dtype": accumulation},
    }


@pytest.mark.slow
def test_sums_in_float32_lose_nothing_that_sums_in_16_bits_lose(train):
    keys = [(stage, accumulation) for stage in (1, 2) for accumulation in ("auto", "fp32")]
    errors = dict(zip(keys, train([task(*key) for key in keys], ranks=1, program=PROGRAM), strict=True))
    for stage in (1, 2):
        assert errors[stage, "fp32"] < 1e-6 < 1e-3 < errors[stage, "auto"], errors


def plan(*settings):
    return plan_only(Selection("llama2_7b_pretrain_zero", settings=settings), Site(on="A100-SXM4-80GB:1x8"))


def test_deepspeed_is_configured_and_its_memory_counted():
    sixteen, single = (
        plan("precision=bf16", "sharding_stage=1", "global_batch=16", f"accumulation_dtype={name}").plan
        for name in ("auto", "fp32")
    )
    config = json.loads(single.worker.files["ds_config.json"])
    assert (config["data_types"], config["communication_data_type"]) == ({"grad_accum_dtype": "fp32"}, "fp32")
    assert "data_types" not in json.loads(sixteen.worker.files["ds_config.json"])
    grown = single.memory[0].at_peak["gradients"] - sixteen.memory[0].at_peak["gradients"]
    assert grown == pytest.approx(2 * single.flops.parameters, rel=0.01)


def test_fp32_runs_have_such_sums_anyway_and_stage_0_has_16_bits_only():
    planned = plan("precision=fp32", "accumulation_dtype=fp32", "attention=sdpa")
    assert isinstance(planned, Planned), planned.problems
    assert "data_types" not in json.loads(planned.plan.worker.files["ds_config.json"])
    refused = plan("sharding_stage=0", "accumulation_dtype=fp32")
    assert "zero.accumulation_dtype" in [problem.code for problem in refused.problems]
