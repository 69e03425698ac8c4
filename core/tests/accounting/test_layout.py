"""Layouts of more than tensor, pipeline and data parallelism."""

import json
from dataclasses import replace

import pytest
from llmperf import parallelism_problems, standard_layout
from llmperf.accounting.rank_layout import layout_problems, layout_text
from llmperf.cli.main import call
from llmperf.types import Layout


@pytest.fixture
def spec(stub_plan):
    """A spec of sixteen ranks whose tuning is given: `spec(tensor_parallel=2)`."""

    def make(**tuning):
        given = stub_plan().spec
        contract = replace(given.contract, seq_len=64)
        model = replace(given.model, attention_heads=16, kv_heads=16, layers=4)
        return replace(given, contract=contract, model=model, tuning=replace(given.tuning, devices=16, **tuning))

    return make


def test_context_parallel_ranks_share_sequences_and_expert_parallel_ranks_do_not(spec):
    layout = standard_layout(spec(tensor_parallel=2, context_parallel=4, expert_parallel=8, sequence_parallel=True))
    assert (layout.data_parallel, layout.context_parallel, layout.expert_parallel) == (2, 4, 8)
    assert layout_text(layout) == "TP2 x PP1 x CP4 x DP2, EP8, SP"


def test_state_is_sharded_over_data_and_context_parallel_ranks(spec):
    assert standard_layout(spec(context_parallel=4, sharding_stage=1)).sharding_degree == 16
    assert standard_layout(spec(context_parallel=4)).sharding_degree == 1


@pytest.mark.parametrize(
    "order", [("tensor", "context", "data", "pipeline"), ("pipeline", "data", "tensor", "context")]
)
def test_the_rank_order_says_which_ranks_see_the_same_sequences(order):
    layout = Layout(
        nodes=2, devices_per_node=12, tensor_parallel=2, pipeline_parallel=2, data_parallel=3, context_parallel=2,
        rank_order=order,
    )  # fmt: skip
    places = {tuple(layout.coordinate(rank, name) for name in order) for rank in range(layout.world_size)}
    assert len(places) == 24
    stride = 4 if order[0] == "tensor" else 2
    assert [layout.data_parallel_rank(rank) for rank in range(24)] == [rank // stride % 3 for rank in range(24)]
    assert layout.coordinate(1, order[0]) == 1


@pytest.mark.parametrize(
    ("tuning", "code", "nearest"),
    [
        ({"context_parallel": 3}, "ranks_not_divisible", "the nearest number of ranks that works is 15"),
        ({"context_parallel": 16, "devices": 48, "tensor_parallel": 3}, "model_not_divisible", "is 2"),
        ({"context_parallel": 128, "devices": 128}, "sequence_not_divisible", "the nearest that does is 64"),
        ({"expert_parallel": 3}, "experts_not_divisible", "the nearest is 2"),
        ({"sharding_stage": 1, "sharding_degree": 5}, "sharding_not_divisible", "the nearest is 4"),
        ({"sequence_parallel": True}, "sequence_parallel_alone", "nearest: --set sequence_parallel=false"),
    ],
)
def test_degrees_that_do_not_divide_are_problems_with_the_nearest_choice(spec, tuning, code, nearest):
    given = spec()
    found = layout_problems(given.contract, replace(given.tuning, **tuning), given.model)
    (message,) = [problem.message for problem in found if problem.code == code][:1]
    assert nearest in message


def test_a_framework_refuses_the_degrees_that_it_does_not_have(spec):
    asked = spec(tensor_parallel=2, context_parallel=2, sequence_parallel=True)
    problems = {problem.code: problem for problem in parallelism_problems("abacus", asked, ["tensor_parallel"])}
    assert list(problems) == ["abacus.context_parallel", "abacus.sequence_parallel"]
    assert problems["abacus.context_parallel"].where == "tuning.context_parallel"
    assert problems["abacus.context_parallel"].message == (
        "abacus is data and tensor parallel only: expected 1, found 2; the nearest is 1"
    )


@pytest.mark.parametrize("framework", ["pytorch", "zero", "lora", "megatron_deepspeed", "paddle"])
@pytest.mark.parametrize("setting", ["context_parallel=2", "expert_parallel=2"])
def test_every_framework_of_the_project_refuses_parallelism_that_it_does_not_have(capsys, framework, setting):
    case = "llama2_7b_lora" if framework == "lora" else "llama2_7b_pretrain_zero"
    where = ("--on", "A100-SXM4-40GB:1x8", "--framework", framework, "--set", "global_batch=2048")
    assert call(["plan", case, *where, "--set", setting, "--json"]) == 2
    name = setting.partition("=")[0]
    codes = {problem["code"] for problem in json.loads(capsys.readouterr().out)["problems"]}
    assert f"{framework}.{name}" in codes
    assert ("experts_not_divisible" in codes) is (name == "expert_parallel")  # a Llama has none
