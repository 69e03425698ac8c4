"""The references that first losses are compared with."""

from dataclasses import replace

import pytest
from llmperf import initial_normal, library
from llmperf.planning.build import plan_run
from llmperf.planning.states import Selection, Site
from llmperf_testing import reference, transformers_reference

pytestmark = pytest.mark.slow

SETTINGS = ("model=llama_tiny", "dataset=synthetic", "seq_len=32", "global_batch=2", "micro_batch=1", "steps=5")
KINDS = (
    "llama3_tiny",
    "qwen3_tiny",
    "gemma3_tiny",
    "mixtral_tiny",
    "qwen3_moe_tiny",
    "gpt_oss_tiny",
    "deepseek_v3_tiny",
)


@pytest.fixture(scope="module")
def plan_of():
    """`plan_of(name, **facts)`: the plan of a few steps of a shipped model, some of its facts replaced."""
    tiny = plan_run(Selection("llama2_7b_pretrain_zero", framework="pytorch", settings=SETTINGS), Site(devices=1)).plan

    def make(name, **facts):
        model = replace(library().model(name), **facts)
        return replace(tiny, spec=replace(tiny.spec, model=model))

    return make


@pytest.mark.parametrize("tied", [False, True])
def test_both_references_agree_on_a_llama(plan_of, tied):
    plan = plan_of("llama_tiny", tied_embeddings=tied)
    assert reference.covers(plan.spec)
    assert transformers_reference.uncovered(plan.spec) is None
    found = transformers_reference.trajectory(plan, 4).losses
    assert found == pytest.approx(reference.trajectory(plan, 4).losses, abs=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_later_kinds_are_those_of_transformers(plan_of, name):
    spec = plan_of(name).spec
    assert not reference.covers(spec)
    assert transformers_reference.uncovered(spec) is None


def test_transformers_covers_biases_of_qwen2_and_nothing_that_it_has_no_class_for(plan_of):
    model = {"family": "qwen2", "attention_bias": ("q", "k", "v")}
    assert transformers_reference.uncovered(plan_of("llama_tiny", **model).spec) is None
    assert "baichuan" in transformers_reference.uncovered(plan_of("llama_tiny", family="baichuan").spec)
    biased = plan_of("llama3_tiny", attention_bias=("q",)).spec
    assert "887,168 parameters, llama3_tiny 886,400" in transformers_reference.uncovered(biased)


def test_gate_and_up_rows_of_gpt_oss_come_by_turns():
    model = library().model("gpt_oss_tiny")
    name, std = "model.layers.0.mlp.experts", model.initializer_std
    fused = transformers_reference.initial_weight(f"{name}.gate_up_proj", (8, 128, 256), model, seed=1)
    for first, part in enumerate(("gate_proj", "up_proj")):
        expected = initial_normal(1, f"{name}.3.{part}.weight", (128, 128), std)
        assert (expected == fused[3, :, first::2].T).all()
