"""What Paddle says while planning; the published rows, planned for the machines they were measured on."""

import pytest
from llmperf.files.json_files import convert
from llmperf.planning.build import plan_run
from llmperf.planning.states import Selection, Site
from llmperf.types import Probe
from llmperf_inspect.checks import examine
from llmperf_paddle import installed, limits
from llmperf_paddle.plugin import llmperf_plan_workers
from llmperf_testing import FrameworkContract

GPU = {
    "devices": [{"index": 0, "model": "GPU", "memory_bytes": None}],
    "offers": {"precisions": ["fp32", "tf32", "bf16", "fp16"], "runtimes": ["torch", "paddle"],
               "collective_backend": "nccl", "features": ["flash_attention"]},
}  # fmt: skip

# case, device, tensor, pipeline, stage, sharding degree, micro batch, accumulation, recompute, fused RMS norm
ROWS = [
    ("7b", "A100-SXM4-80GB", 1, 1, 2, 8, 4, 64, False, True),
    ("7b", "A100-SXM4-80GB", 2, 1, 1, 4, 4, 128, False, True),
    ("7b", "A100-SXM4-80GB", 2, 1, 2, 4, 4, 128, False, True),
    ("7b", "A100-SXM4-80GB", 2, 4, 1, 1, 4, 512, False, True),
    ("7b", "A100-SXM4-40GB", 1, 1, 2, 8, 2, 128, True, False),
    ("7b", "A100-SXM4-40GB", 2, 1, 1, 4, 2, 256, True, False),
    ("7b", "A100-SXM4-40GB", 2, 1, 2, 4, 2, 256, True, False),
    ("7b", "A100-SXM4-40GB", 2, 4, 1, 1, 2, 1024, True, False),
    ("13b", "A100-SXM4-80GB", 1, 1, 2, 8, 2, 128, True, True),
    ("13b", "A100-SXM4-80GB", 2, 1, 1, 4, 2, 256, True, True),
    ("13b", "A100-SXM4-80GB", 2, 1, 2, 4, 2, 256, True, True),
    ("13b", "A100-SXM4-80GB", 2, 4, 1, 1, 4, 512, True, True),
]


def worker_plan(program, world=1, probe=None, **task):
    spec = program.make_spec({"framework": "paddle", **task}, world=world)
    return llmperf_plan_workers(spec, convert({**program.PROBE, **(probe or {})}, Probe, "probe"))


def told(program, **task):
    return {problem.where: problem.message for problem in worker_plan(program, **task).problems}


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: f"{row[0]} {row[1][-4:]} TP{row[2]} PP{row[3]} SH{row[4]} SP{row[5]}"
)
def test_the_published_rows_plan_exactly(row):
    size, device, tensor, pipeline, stage, degree, micro, accumulation, recompute, fused = row
    settings = {
        "tensor_parallel": tensor,
        "pipeline_parallel": pipeline,
        "sharding_stage": stage,
        "sharding_degree": degree,
        "micro_batch": micro,
        "gradient_checkpointing": str(recompute).lower(),
        "fused_ops": '["rms_norm"]' if fused else "[]",
    }
    words = tuple(f"{name}={value}" for name, value in settings.items())
    found = plan_run(Selection(f"llama1_{size}_pretrain_paddle", settings=words), Site(on=f"{device}:1x8"))
    assert found.problems == ()
    plan = found.plan
    layout, batch = plan.layout, plan.batch
    assert (layout.tensor_parallel, layout.pipeline_parallel, layout.data_parallel) == (tensor, pipeline, degree)
    assert (layout.sharding_stage, layout.sharding_degree) == (stage, degree)
    assert (batch.micro_batch, batch.gradient_accumulation) == (micro, accumulation)
    assert (batch.global_batch, batch.seq_len, batch.tokens_per_step) == (2048, 2048, 4_194_304)
    assert plan.spec.contract.precision == "fp16"
    assert not plan.spec.variant
    assert len(plan.state_bytes_per_stage) == pipeline
    memory = plan.probe.devices[0].memory_bytes
    assert all(0 < needed < memory for needed in plan.state_bytes_per_stage)
    assert plan.worker.needs.features == ("flash_attention",)
    assert plan.worker.rank_env["FLAGS_selected_gpus"] == "{local_rank}"


def test_ranks_find_each_other_and_their_device(program):
    here = worker_plan(program, world=2).rank_env
    assert here["PADDLE_TRAINER_ENDPOINTS"] == "{master_addr}:{master_port},{master_addr}:1"
    assert (here["PADDLE_TRAINER_ID"], here["PADDLE_DISTRI_BACKEND"]) == ("{rank}", "gloo")
    assert "FLAGS_selected_gpus" not in here
    there = worker_plan(program, world=2, probe=GPU).rank_env
    assert (there["FLAGS_selected_gpus"], there["PADDLE_DISTRI_BACKEND"]) == ("{local_rank}", "nccl")
    assert there["NVIDIA_TF32_OVERRIDE"] == "0"
    tf32 = worker_plan(program, world=2, probe=GPU, contract={"precision": "tf32"}).rank_env
    assert "NVIDIA_TF32_OVERRIDE" not in tf32
    kunlun = {**GPU, "offers": {**GPU["offers"], "collective_backend": "bkcl"}}
    assert worker_plan(program, probe=kunlun).rank_env["FLAGS_selected_xpus"] == "{local_rank}"


def test_what_does_not_fit_is_told_at_once(program):
    found = told(
        program,
        world=4,
        contract={"precision": "bf16", "lora": {}},
        tuning={"pipeline_parallel": 2, "sharding_stage": 2, "attention": "flash", "fused_ops": ["rms_norm"]},
        options={"amp_levle": "O2", "segment_size": -1, "split_param": True},
    )
    assert set(found) == {
        "contract.precision",
        "contract.lora",
        "tuning.sharding_stage",
        "tuning.attention",
        "tuning.fused_ops",
        "framework.amp_levle",
        "framework.segment_size",
        "framework.split_param",
    }
    assert found["framework.amp_levle"] == "paddle has no such option; did you mean 'amp_level'?"
    assert "the nearest is 1" in found["tuning.sharding_stage"]
    assert "--set attention=sdpa" in found["tuning.attention"]


@pytest.mark.parametrize("precision", ["bf16", "fp16", "tf32"])
def test_a_precision_that_a_cpu_would_only_pretend_is_refused(program, precision):
    found = told(program, contract={"precision": precision})
    assert f"expected fp32, found {precision}; nearest: --set precision=fp32" in found["contract.precision"]
    assert told(program, contract={"precision": precision}, probe=GPU) == {}


def test_flash_attention_is_for_16_bits(program):
    task = {"tuning": {"attention": "flash"}, "probe": GPU}
    assert (
        "found tf32; nearest: --set attention=sdpa"
        in told(program, contract={"precision": "tf32"}, **task)["tuning.attention"]
    )
    assert told(program, contract={"precision": "bf16"}, **task) == {}


def test_stage_1_v2_is_refused_on_a_cpu_only(program):
    task = {"world": 2, "tuning": {"sharding_stage": 1}, "options": {"split_param": True}}
    assert "found True" in told(program, **task)["framework.split_param"]
    assert told(program, **task, probe=GPU) == {}


@pytest.mark.parametrize(
    ("task", "where", "message"),
    [
        ({"tuning": {"tensor_parallel": 2, "sharding_stage": 3}}, "tuning.sharding_stage", "the nearest is stage 2"),
        ({"tuning": {"pipeline_parallel": 2, "sharding_stage": 3}}, "tuning.sharding_stage", "the nearest is 1"),
        ({"tuning": {"sharding_degree": 2}}, "tuning.sharding_stage", "expected 1, 2 or 3, found 0"),
        ({"tuning": {"fused_ops": ["gelu"]}}, "tuning.fused_ops", "expected some of rms_norm, rope, swiglu"),
        ({"tuning": {"fused_ops": ["swiglu", "rope"]}}, "tuning.fused_ops", "no kernel of rope on a CPU"),
        ({"tuning": {"tensor_parallel": 4}, "model": {"vocab_size": 510}}, "tuning.tensor_parallel", "vocabulary"),
        ({"model": {"family": "baichuan", "kv_heads": 4}}, "model.family", "paddle builds models of family llama"),
        ({"model": {"tied_embeddings": True}, "tuning": {"sharding_stage": 3}}, "contract.model", "ties"),
        ({"model": {"sinks": True}}, "model.sinks", "paddle builds only models with sinks false, found true"),
        ({"model": {"activation": "swiglu_clamped"}}, "model.activation", "found 'swiglu_clamped'"),
        ({"model": {"activation": "geglu"}, "tuning": {"fused_ops": ["swiglu"]}}, "tuning.fused_ops", "has geglu"),
        ({"options": {"amp_level": "O1"}}, "framework.amp_level", "amp_level is for bf16 and fp16, found fp32"),
        ({"options": {"segment_size": 10}}, "framework.segment_size", "for sharding stage 3, found 0"),
        ({"options": {"split_param": "no"}, "tuning": {"sharding_stage": 1}}, "framework.split_param",
         "expected true or false, found 'no'"),
    ],
)  # fmt: skip
def test_the_reason_and_the_nearest_that_works(program, task, where, message):
    assert message in told(program, world=4, **task)[where]


@pytest.mark.parametrize("name", ["llama3_1_8b", "llama3_1_70b", "qwen3_8b", "qwen3_32b"])
def test_todays_dense_models_plan(name):
    settings = (f"model={name}", "tensor_parallel=8", "micro_batch=1")
    chosen = Selection("llama1_7b_pretrain_paddle", settings=settings)
    assert plan_run(chosen, Site(on="A100-SXM4-80GB:8x8")).problems == ()


def test_flash_attention_has_no_windows(program):
    model = {"window": 16, "norms_per_block": 4, "activation": "geglu"}
    settings = {"probe": GPU, "model": model, "contract": {"precision": "bf16"}}
    assert "has one of 16 tokens" in told(program, tuning={"attention": "flash"}, **settings)["tuning.attention"]
    assert told(program, tuning={"attention": "sdpa"}, **settings) == {}
    assert told(program, tuning={"attention": "flash"}, **settings | {"model": model | {"window": 64}}) == {}


def test_another_version_is_refused_where_the_adapter_is_needed(program, monkeypatch):
    monkeypatch.setattr(limits.metadata, "version", lambda _: "3.4.0")
    assert "needs paddlepaddle 3.3.1" in told(program, world=2, tuning={"tensor_parallel": 2})["tuning.framework"]
    assert told(program, world=2) == {}
    assert told(program, world=2, tuning={"sharding_stage": 1}) == {}
    assert told(program, world=4, tuning={"tensor_parallel": 2}, probe=GPU) == {}


@pytest.fixture
def builds(monkeypatch):
    """A function that has this environment contain these distributions of Paddle."""

    def play(**versions):
        present = {name.replace("_", "-"): version for name, version in versions.items()}
        monkeypatch.setattr(installed, "installed_builds", lambda: present)
        monkeypatch.setattr(installed, "find_spec", lambda name: object() if present else None)

    return play


@pytest.mark.parametrize("version", ["3.3.1", "3.10.0.dev20260101", "4.0.0", "0.0.0", "beta"])
def test_one_build_that_is_new_enough_or_of_unknown_version_passes(builds, version):
    builds(paddlepaddle_gpu=version)
    assert installed.build_problem() is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ({}, "expected Paddle 3.3 or later, found none: for a CPU, uv pip install 'paddlepaddle>=3.3' setuptools;"),
        ({"paddlepaddle_gpu": "2.6.2"}, "expected Paddle 3.3 or later, found paddlepaddle-gpu 2.6.2 (docs/drivers.md"),
        (
            {"paddlepaddle": "3.3.1", "paddlepaddle_gpu": "3.3.1"},
            "paddlepaddle 3.3.1 and paddlepaddle-gpu 3.3.1 overwrite each other's files: expected one of them",
        ),
    ],
)
def test_doctor_says_what_speaks_against_the_builds(builds, versions, message):
    builds(**versions)
    (diagnosis,) = [diagnosis for diagnosis in examine() if diagnosis.subject == "Paddle"]
    assert (diagnosis.state, message in diagnosis.message) == ("missing", True)


def test_the_installed_build_is_found():
    assert list(installed.installed_builds()) == ["paddlepaddle"]
    assert installed.build_problem() is None


class TestPaddle(FrameworkContract):
    plugin = "paddle"
    seed = 3
