"""Models from a file of the user's own, and models that no framework builds."""

import ast
import json
import re
from pathlib import Path

import llmperf
import pytest
from llmperf import architecture_problems
from llmperf.cases.library import library
from llmperf.cli.main import call
from llmperf.planning.build import plan_only
from llmperf.planning.plugin_checks import ARCHITECTURE
from llmperf.planning.states import Selection, Site
from llmperf.types import Contract, Model, Optimizer, RunSpec, Tuning
from llmperf.types.plan_checks import Problem
from llmperf_verify.rules.provenance import problem_codes

TINY = Path(llmperf.__file__).parent / "data" / "models" / "llama_tiny.toml"
BAICHUAN, UNKNOWN = '"baichuan"', '"nope"'
ARGUMENTS = ("plan", "default", "--vendor", "cpu", "--framework", "pytorch", "--devices", "1", "--json")


@pytest.fixture
def own(tmp_path):
    """A function that writes a model file: the tiny Llama with some of its text replaced."""

    def write(name: str = "mine", **changes: str) -> str:
        lines = [line for line in TINY.read_text().splitlines() if line.partition(" ")[0] not in {"name", *changes}]
        path = tmp_path / f"{name}.toml"
        path.write_text("\n".join([*(f"{key} = {value}" for key, value in changes.items()), *lines]))
        return str(path)

    return write


def test_a_model_file_of_the_users_own_is_planned_under_its_name(own, ran):
    document = json.loads(ran(0, *ARGUMENTS, "--set", f"model={own(intermediate_size='192')}").out)
    spec = document["plan"]["spec"]
    assert (spec["model"]["intermediate_size"], spec["contract"]["model"]) == (192, "mine")
    assert {"path": "contract.model", "case_value": "llama_mini", "value": "mine", "origin": "--set"} in document[
        "fix_hp"
    ]
    assert document["variant"]


def test_a_model_file_may_not_have_the_name_of_a_shipped_model(own, capsys):
    assert call([*ARGUMENTS, "--set", f"model={own('llama2_7b')}"]) == 2
    assert "'llama2_7b' is the name of a shipped model; rename the file" in capsys.readouterr().err


@pytest.mark.parametrize("framework", ["megatron_deepspeed", "paddle"])
def test_a_family_that_a_framework_does_not_build_is_refused_with_those_that_it_does(own, ran, framework):
    arguments = [framework if word == "pytorch" else word for word in ARGUMENTS]
    problems = json.loads(ran(2, *arguments, "--set", f"model={own(family=BAICHUAN)}").out)["problems"]
    (message,) = [problem["message"] for problem in problems if problem["code"].endswith(".family")]
    assert "builds models of family llama" in message
    assert "found 'baichuan' (mine)" in message


def test_a_position_encoding_that_pytorch_does_not_have_is_refused(own, capsys):
    assert call([*ARGUMENTS, "--set", f"model={own(position_encoding=UNKNOWN, family=BAICHUAN)}"]) == 2
    problems = {problem["code"]: problem for problem in json.loads(capsys.readouterr().out)["problems"]}
    assert "expected one of rope, alibi, found 'nope'" in problems["pytorch.position_encoding"]["message"]


@pytest.mark.parametrize("setting", ["family=qwen3", "model.layers=3"])
def test_facts_of_a_model_cannot_be_set_but_another_model_can(ran, setting):
    message = ran(2, *ARGUMENTS, "--set", setting).err
    assert "is a fact of the model; choose another model with --set model=NAME (" in message
    assert "llama2_70b" in message
    assert "or your own with --set model=./FILE.toml" in message


def test_contract_and_framework_problems_are_shown_together(ran):
    settings = (
        "seq_len=999999",
        "micro_batch=3",
        "tensor_parallel=2",
        "context_parallel=2",
        'fused_ops=["x"]',
        "warmup_steps=999999",
    )
    document = json.loads(ran(2, *ARGUMENTS, *(word for setting in settings for word in ("--set", setting))).out)
    codes = {problem["code"] for problem in document["problems"]}
    assert {"sequence_too_long", "ranks_not_divisible", "nothing_measured"} <= codes
    assert {"pytorch.context_parallel", "pytorch.fused_ops"} <= codes
    assert document["plan"] is None


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


ROOT = Path(llmperf.__file__).parents[3]


def codes_in(folder: Path) -> set[str]:
    """Every literal `code=` of a `Problem(...)` in the Python files of a folder."""
    return {
        str(keyword.value.value)
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Problem"
        for keyword in node.keywords
        if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
    }


@pytest.mark.slow
def test_the_list_of_core_codes_is_complete():
    of_plugins = Problem(where="tuning", message="a plugin that gives no code").code
    of_checks = codes_in(ROOT / "extensions" / "estimate" / "src")  # the check of plans that the core once made itself
    assert codes_in(ROOT / "core" / "src") | of_checks | {of_plugins} == set(problem_codes())


def test_the_codes_of_plugins_have_the_name_of_the_plugin_in_front():
    codes = codes_in(ROOT / "frameworks")
    assert codes
    for code in codes:
        assert re.fullmatch(r"[a-z0-9_]+\.[a-z0-9_]+", code), code


def test_codes_are_shown_in_plans_and_refusals(ran):
    arguments = ["default", "--vendor", "cpu", "--devices", "1", "--set", "seq_len=999999"]
    problems = json.loads(ran(2, "plan", *arguments, "--json").out)["problems"]
    assert "sequence_too_long" in {problem["code"] for problem in problems}
    assert "[sequence_too_long]" in ran(2, "plan", *arguments).out
    assert "[sequence_too_long]" in ran(2, "run", *arguments).err
