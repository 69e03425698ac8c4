"""What the built-in engine says while planning, and the configuration it writes."""

import json

import pytest
from llmperf.files.json_files import convert
from llmperf.planning.build import plan_run
from llmperf.planning.states import Selection, Site
from llmperf.types import Probe
from llmperf_megatron_deepspeed.plugin import llmperf_plan_workers
from llmperf_testing import FrameworkContract

CASE = "llama2_7b_pretrain_megatron"
A100 = "A100-SXM4-40GB:1x8"


def worker_plan(program, task, world=8):
    task = {"framework": "megatron_deepspeed", **task, "tuning": {"sharding_stage": 1, **task.get("tuning", {})}}
    return llmperf_plan_workers(program.make_spec(task, world=world), convert(program.PROBE, Probe, "probe"))


def problems(program, task, world=8):
    return {one.where: one.message for one in worker_plan(program, task, world).problems}


def test_the_configuration_follows_the_case(program):
    task = {"contract": {"precision": "bf16"}, "tuning": {"tensor_parallel": 2, "pipeline_parallel": 2}}
    found = json.loads(worker_plan(program, task).files["ds_config.json"])
    assert found["zero_optimization"] == {"stage": 1}
    assert found["gradient_accumulation_steps"] == 2
    assert found["bf16"]["enabled"] is True
    assert found["pipeline"] == {"use_reentrant": False, "pipe_partitioned": False, "grad_partitioned": False}


@pytest.mark.parametrize("stage", [0, 2, 3])
def test_other_stages_are_refused_with_the_nearest(program, stage):
    told = problems(program, {"tuning": {"sharding_stage": stage}})
    assert told["tuning.sharding_stage"].endswith(f"expected 1, found {stage}; the nearest is 1")


def test_what_does_not_fit_is_told_at_once(program):
    task = {
        "model": {"vocab_size": 510, "intermediate_size": 130, "family": "baichuan"},
        "tuning": {"tensor_parallel": 4, "attention": "flash", "fused_ops": ["masked_softmax"]},
        "contract": {"lora": {"rank": 8}},
        "options": {"engin": "builtin", "megatron_home": "/there"},
    }
    told = problems(program, task)
    assert set(told) >= {
        "contract.lora",
        "tuning.tensor_parallel",
        "tuning.attention",
        "tuning.fused_ops",
        "model.family",
        "framework.engin",
        "framework.megatron_home",
    }
    assert "the nearest that does is 2" in told["tuning.tensor_parallel"]
    assert "did you mean 'engine'?" in told["framework.engin"]
    assert "--set framework.engine=checkout" in told["framework.megatron_home"]


def test_sequences_and_overlap_need_tensor_parallel_ranks_that_divide_them(program):
    uneven = {"contract": {"seq_len": 63}, "tuning": {"tensor_parallel": 2, "sequence_parallel": True}}
    assert "does not divide seq_len 63" in problems(program, uneven)["tuning.sequence_parallel"]
    alone = {"options": {"overlap_tensor_parallel": True}}
    assert "needs tensor parallel ranks, found 1" in problems(program, alone)["framework.overlap_tensor_parallel"]
    task = {"tuning": {"tensor_parallel": 2, "sequence_parallel": True}, "options": {"overlap_tensor_parallel": True}}
    worker = worker_plan(program, task)
    assert worker.problems == ()
    assert worker.layout.sequence_parallel


@pytest.mark.parametrize(
    ("settings", "where", "nearest"),
    [
        (("tensor_parallel=3",), "tuning.tensor_parallel", "nearest"),
        (("pipeline_parallel=8", "tensor_parallel=1"), "tuning.pipeline_parallel", "the nearest that does is 4"),
        (("precision=fp16",), "contract.precision", "bf16"),
        (("accumulation_dtype=fp32",), "tuning.accumulation_dtype", ""),
    ],
)
def test_layouts_that_cannot_be_are_refused_by_the_command(settings, where, nearest):
    sketch = plan_run(Selection(CASE, settings=("model=llama_tiny", *settings)), Site(devices=8))
    told = {one.where: one.message for one in sketch.problems}
    assert nearest in told[where]


def test_a_case_of_another_framework_is_brought_to_stage_1():
    sketch = plan_run(Selection("llama2_7b_pretrain_zero", framework="megatron_deepspeed"), Site(on=A100))
    assert sketch.spec.tuning.sharding_stage == 1
    assert "tuning.sharding_stage" in {change.path for change in sketch.spec.changes}


@pytest.mark.parametrize("name", ["llama3_1_8b", "qwen3_8b", "qwen3_32b", "gemma3_12b"])
def test_todays_dense_models_plan(name):
    settings = (f"model={name}", "tensor_parallel=8", "micro_batch=1", "attention=sdpa")
    assert plan_run(Selection(CASE, settings=settings), Site(on="A100-SXM4-80GB:8x8")).problems == ()


def test_models_of_any_family_are_built_from_known_blocks_only(program):
    facts = {"family": "mine", "qk_norm": "head", "sinks": True, "window": 9, "feed_forward_bias": True}
    assert problems(program, {"model": facts}) == {}
    found = problems(program, {"model": facts | {"multi_token_layers": 1}})
    families = "megatron_deepspeed builds models of family llama, qwen2, qwen3, gemma3, chatglm, found 'mine' (tiny)"
    assert found["model.family"] == f"{families}; the nearest is --framework zero, which builds it"
    (message,) = problems(program, {"model": facts | {"family": "qwen3", "multi_token_layers": 1}}).values()
    assert message == "megatron_deepspeed builds only models with multi_token_layers 0, found 1 (tiny)"


class TestMegatronDeepspeed(FrameworkContract):
    plugin = "megatron_deepspeed"
    seed = 2
