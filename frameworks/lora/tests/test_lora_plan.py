"""What the plugin says while planning: all that does not fit, at once, without importing anything heavy."""

import json

import pytest
from llmperf.files.json_files import convert
from llmperf.types import Probe
from llmperf_lora import limits
from llmperf_lora.plugin import llmperf_plan_workers, llmperf_worker_env
from llmperf_testing import FrameworkContract

LORA = {"lora": {}}


def worker_plan(program, task, world=1, simulated=False):
    spec = program.make_spec({"framework": "lora", "contract": LORA, **task}, world=world)
    return llmperf_plan_workers(spec, convert({**program.PROBE, "simulated": simulated}, Probe, "probe"))


def problems(program, task, **settings):
    return {problem.where: problem.message for problem in worker_plan(program, task, **settings).problems}


def test_the_published_adapters_plan_on_one_device_and_on_several(program):
    assert problems(program, {}) == {}
    assert "ds_config.json" not in worker_plan(program, {}).files
    for stage in (1, 2, 3):
        worker = worker_plan(program, {"tuning": {"sharding_stage": stage}}, world=4)
        assert worker.problems == ()
        config = json.loads(worker.files["ds_config.json"])
        assert config["zero_optimization"] == {"stage": stage}
        assert worker.layout.sharding_degree == 4
    assert worker.padding


def test_the_result_will_say_which_weights_are_beneath(program, checkpoint, mmlu):
    (note,) = worker_plan(program, {}).notes
    assert note.startswith("base weights: deterministic initialisation from the seed, not pretrained")
    options = {"base_weights": str(checkpoint), "mmlu": str(mmlu), "mmlu_limit": 3}
    read, asked = worker_plan(program, {"options": options}).notes
    assert read == f"base weights: read from {checkpoint}"
    assert asked.startswith("MMLU: test split, 5 shots, at most 3 questions of each subject")


def test_all_that_does_not_fit_is_told_at_once(program):
    task = {
        "contract": {"lora": {"dropout": 1.0, "target_modules": []}, "precision": "fp16"},
        "tuning": {"tensor_parallel": 2, "sharding_stage": 2, "sharding_degree": 2, "attention": "flash"},
        "options": {"mmlu_shot": 3, "mmlu_batch": 0, "save_adapter": "yes", "mmlu_split": "dev", "base_weights": 3},
    }
    document = {**program.PROBE, "offers": {**program.PROBE["offers"], "precisions": ["fp32", "fp16"]}}
    spec = program.make_spec({"framework": "lora", **task}, world=8)
    found = {one.where: one.message for one in llmperf_plan_workers(spec, convert(document, Probe, "probe")).problems}
    assert {name.removeprefix("framework."): text for name, text in found.items() if name.startswith("framework.")} == {
        "mmlu_shot": "lora has no such option; did you mean 'mmlu_shots'?",
        "mmlu_batch": "expected a whole number of at least 1, found 0",
        "save_adapter": "expected true or false, found 'yes'",
        "mmlu_split": "expected one of 'test', 'val', found 'dev'",
        "base_weights": "expected the path of a folder, found 3",
    }
    assert found["contract.lora.dropout"] == "expected less than 1, found 1.0; the published value is 0.05"
    others = {"contract.precision", "contract.lora.target_modules", "contract.lora.dropout"}
    others |= {f"tuning.{name}" for name in ("tensor_parallel", "attention", "sharding_degree")}
    assert {name for name in found if not name.startswith("framework.")} == others


def test_a_case_without_adapters_is_refused_with_what_to_set(program):
    found = problems(program, {"contract": {}})
    assert "--set contract.lora.rank=8" in found["contract.lora"]


def test_zero_without_its_package_is_refused_with_what_to_install(program, monkeypatch):
    monkeypatch.setattr(limits, "find_spec", lambda name: None if name == "llmperf_zero" else object())
    found = problems(program, {"tuning": {"sharding_stage": 1}}, world=2)
    assert found["tuning.sharding_stage"] == (
        "ZeRO needs the package llmperf-zero, which a clone of llmperf has: ./dev uv sync --inexact;"
        " without it the nearest is 0"
    )
    assert problems(program, {}, world=2) == {}


def test_files_are_not_looked_for_on_a_machine_elsewhere(program):
    options = {"base_weights": "/not/here", "mmlu": "/not/here"}
    assert problems(program, {"options": options}, simulated=True) == {}
    assert set(problems(program, {"options": options})) == {"framework.base_weights", "framework.mmlu"}


def test_nothing_is_fetched_from_a_hub(program):
    plan = program.make_plan({"framework": "lora", "contract": LORA})
    assert llmperf_worker_env(plan) == {"HF_HUB_OFFLINE": "1"}
    plan = program.make_plan({"framework": "lora", "contract": LORA, "tuning": {"sharding_stage": 1}})
    deepspeed = {"TORCH_EXTENSIONS_DIR", "DS_ACCELERATOR", "MLFLOW_DISABLE_TELEMETRY"}
    assert {"HF_HUB_OFFLINE", *deepspeed} == set(llmperf_worker_env(plan))


@pytest.mark.parametrize("framework", ["pytorch", "zero"])
def test_frameworks_that_train_all_weights_refuse_adapters(program, framework):
    from importlib import import_module

    spec = program.make_spec({"framework": framework, "contract": LORA})
    hook = import_module(f"llmperf_{framework}.plugin").llmperf_plan_workers
    found = {one.where: one.message for one in hook(spec, convert(program.PROBE, Probe, "probe")).problems}
    assert found == {"contract.lora": f"{framework} trains all weights; framework 'lora' trains adapters"}


class TestLora(FrameworkContract):
    plugin = "lora"
    seed = 1
