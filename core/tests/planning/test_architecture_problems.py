"""Frameworks refuse facts of a model that they do not build, however the model's family is called."""

from __future__ import annotations

from llmperf import architecture_problems
from llmperf.cases.library import library
from llmperf.planning.build import plan_only
from llmperf.planning.plugin_checks import ARCHITECTURE
from llmperf.planning.states import Selection, Site
from llmperf.types import Contract, Model, Optimizer, RunSpec, Tuning

ON = "A100-SXM4-80GB:1x8"


def spec(name: str) -> RunSpec:
    contract = Contract(
        model=name,
        dataset="synthetic",
        seq_len=8,
        global_batch=1,
        precision="bf16",
        optimizer=Optimizer(lr=1e-3),
        steps=1,
        warmup_steps=0,
    )
    tuning = Tuning(framework="mine")
    return RunSpec(case="mine", title="Mine", contract=contract, tuning=tuning, model=library().model(name))


def test_each_fact_that_departs_is_named_with_what_is_built():
    problems = list(architecture_problems("mine", spec("gpt_oss_20b"), ("head_width", "mixture", "rope_scaling")))
    assert [(problem.code, problem.where) for problem in problems] == [
        ("mine.architecture", "model.attention_bias"),
        ("mine.architecture", "model.sinks"),
        ("mine.architecture", "model.window"),
        ("mine.architecture", "model.activation"),
    ]
    assert problems[0].message == ("mine builds only models with attention_bias none, found q, k, v, o (gpt_oss_20b)")
    assert problems[2].message == "mine builds only models with window none, found 128 (gpt_oss_20b)"


def test_every_fact_of_architecture_is_checked():
    """New facts with a default are either checked or listed here as known to every framework."""
    sizes = {"intermediate_size", "attention_heads", "kv_heads", "max_positions"}  # absent in counted models alone
    known = {"counted", "nominal_active_parameters", "rope_theta", "tied_embeddings", "normalized_head"}
    beside = {"window_pattern", "window_rope_theta", "stated_parts"}  # they say nothing without what is checked
    given = {
        name
        for name, field in Model.__dataclass_fields__.items()
        if field.default.__class__.__name__ != "_MISSING_TYPE"
    }
    assert given == set(ARCHITECTURE) | sizes | known | {"initializer_std"} | beside


def test_paddle_builds_known_blocks_of_any_family_and_lists_its_families_for_others():
    def messages(model: str) -> list[str]:
        settings = [f"model={model}", "global_batch=16"]
        outcome = plan_only(Selection("default", framework="paddle", settings=settings), Site(on=ON))
        return [problem.message for problem in outcome.problems]

    assert messages("qwen3_8b") == []
    families = "paddle builds models of family llama, qwen2, qwen3, gemma3, chatglm, found 'qwen3_moe'"
    assert any(message.startswith(families) for message in messages("qwen3_30b_a3b"))
