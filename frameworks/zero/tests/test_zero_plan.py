"""What ZeRO says while planning, and the configuration it writes."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from llmperf.cli.main import call
from llmperf.errors import UserError
from llmperf.files.json_files import convert
from llmperf.planning.build import plan_only
from llmperf.planning.states import Planned, Selection, Site
from llmperf.types import Probe
from llmperf_testing import FrameworkContract
from llmperf_zero.options import deepspeed_facts
from llmperf_zero.plugin import llmperf_plan_workers, llmperf_trace_step, llmperf_worker_env


def worker_plan(program, task, world=8):
    spec = program.make_spec({"framework": "zero", **task}, world=world)
    return llmperf_plan_workers(spec, convert(program.PROBE, Probe, "probe"))


def config(program, task, world=8):
    return json.loads(worker_plan(program, task, world).files["ds_config.json"])


def test_the_settings_of_a_framework_are_shown_with_their_defaults(ran, capsys):
    assert call(["plugins", "zero"]) == 0
    assert "framework.sub_group_size\n  stage 3: parameters updated at a time; default 1," in capsys.readouterr().out
    assert "unknown plugin 'zer'; did you mean 'zero'?" in ran(2, "plugins", "zer").err


def test_the_configuration_follows_the_case(program):
    task = {
        "contract": {"global_batch": 64, "precision": "bf16"},
        "tuning": {"sharding_stage": 2, "micro_batch": 2},
    }
    found = config(program, task)
    assert (found["train_micro_batch_size_per_gpu"], found["gradient_accumulation_steps"]) == (2, 4)
    assert found["zero_optimization"] == {"stage": 2}
    assert (found["bf16"]["enabled"], found["fp16"]["enabled"], found["gradient_clipping"]) == (True, False, 0.5)
    assert found["timers"] == {"throughput": {"enabled": False}}
    assert found["bf16"]["check_grad_overflow"] is False
    assert config(program, {"contract": {"optimizer": {"lr": 1e-3, "clip_norm": None}}})["gradient_clipping"] == 0


def test_the_estimate_of_memory_has_what_deepspeeds_update_and_buckets_hold(program):
    held = {}
    for precision in ("fp32", "bf16"):
        for stage in range(4):
            task = {"contract": {"precision": precision}, "tuning": {"sharding_stage": stage}}
            held[precision, stage] = worker_plan(program, task)
    assert [held["bf16", stage].update_bytes_per_parameter for stage in range(4)] == [4, 6, 6, 6]
    assert [held["bf16", stage].update_parameters for stage in range(4)] == [None, None, None, 10**9]
    assert [held["bf16", stage].buffer_bytes for stage in range(4)] == [0, 10**9, 10**9, 10**9 + 2 * 100_000]
    assert {held["fp32", stage].update_bytes_per_parameter for stage in range(4)} == {0}
    assert held["fp32", 2].buffer_bytes == 2 * 10**9


def test_overlap_takes_a_second_bucket_at_stages_1_and_2(program):
    for stage, buckets in ((1, 2), (2, 2), (3, 1)):
        options = {"overlap_comm": True, "reduce_bucket_size": 1000}
        task = {"contract": {"precision": "bf16"}, "tuning": {"sharding_stage": stage}, "options": options}
        live = 100_000 if stage == 3 else 0
        assert worker_plan(program, task).buffer_bytes == (buckets * 1000 + live) * 2
        section = config(program, task)["zero_optimization"]
        assert section == {"stage": stage, "overlap_comm": True, "reduce_bucket_size": 1000}


def test_options_of_stage_3_are_deepspeeds(program):
    options = {"sub_group_size": 10, "prefetch_bucket_size": 20, "param_persistence_threshold": 0}
    task = {"tuning": {"sharding_stage": 3}, "options": {**options, "max_live_parameters": 40}}
    assert config(program, task)["zero_optimization"] == {
        "stage": 3,
        "sub_group_size": 10,
        "stage3_prefetch_bucket_size": 20,
        "stage3_param_persistence_threshold": 0,
        "stage3_max_live_parameters": 40,
    }
    assert worker_plan(program, task).update_parameters == 10


@pytest.mark.parametrize(
    ("stage", "offload", "states"),
    [
        (1, "optimizer", ("optimizer",)),
        (2, "optimizer", ("optimizer", "gradients")),
        (3, "optimizer", ("optimizer", "gradients")),
        (3, "parameters", ("parameters", "optimizer", "gradients")),
    ],
)
def test_offloaded_states_are_pinned_on_the_host_and_off_the_estimate(program, stage, offload, states):
    task = {"tuning": {"sharding_stage": stage}, "options": {"offload": offload}}
    spec = program.make_spec({"framework": "zero", **task}, world=8)
    worker = llmperf_plan_workers(spec, convert(program.make_probe({"device": "cuda:0"}), Probe, "probe"))
    assert worker.problems == ()
    assert worker.offloaded == states
    section = json.loads(worker.files["ds_config.json"])["zero_optimization"]
    assert section["offload_optimizer"] == {"device": "cpu", "pin_memory": True}
    assert ("offload_param" in section) == (offload == "parameters")


def test_options_without_effect_are_refused_with_the_reason(program):
    def refused(stage, **options):
        task = {"tuning": {"sharding_stage": stage}, "options": options}
        return {problem.where: problem.message for problem in worker_plan(program, task).problems}

    assert "for sharding stage 1, 2 or 3, found 0" in refused(0, overlap_comm=True)["framework.overlap_comm"]
    assert "for sharding stage 3, found 2" in refused(2, sub_group_size=5)["framework.sub_group_size"]
    assert "for sharding stage 3, found 2" in refused(2, offload="parameters")["framework.offload"]
    assert "from an accelerator to the host" in refused(2, offload="optimizer")["framework.offload"]
    assert refused(2, reduce_bucket_size=0)["framework.reduce_bucket_size"].startswith("expected a whole number")


def test_what_does_not_fit_is_told_at_once(program):
    task = {
        "tuning": {"sharding_stage": 3, "sharding_degree": 4, "tensor_parallel": 2, "attention": "flash"},
        "options": {"optimiser": "torch", "optimizer": "adam"},
    }
    found = {problem.where: problem.message for problem in worker_plan(program, task, world=16).problems}
    assert set(found) == {
        "tuning.sharding_degree",
        "tuning.tensor_parallel",
        "tuning.attention",
        "framework.optimiser",
        "framework.optimizer",
    }
    assert found["framework.optimiser"] == "zero has no such option; did you mean 'optimizer'?"
    assert found["framework.optimizer"] == "expected one of 'torch', 'deepspeed', found 'adam'"
    assert "expected 8, found 4" in found["tuning.sharding_degree"]


def test_each_environment_compiles_in_a_folder_of_its_own_for_the_accelerator_that_there_is(
    program, monkeypatch, tmp_path
):
    monkeypatch.setenv("LLMPERF_CACHE_DIR", str(tmp_path))
    plan = program.make_plan({"framework": "zero"})
    here = llmperf_worker_env(plan)
    assert here["TORCH_EXTENSIONS_DIR"].startswith(str(tmp_path))
    assert here["DS_ACCELERATOR"] == "cpu"
    assert here["MLFLOW_DISABLE_TELEMETRY"] == "true"
    monkeypatch.setattr(sys, "prefix", "/another/environment")
    assert llmperf_worker_env(plan)["TORCH_EXTENSIONS_DIR"] != here["TORCH_EXTENSIONS_DIR"]
    devices = tuple(replace(device, kind="accelerator") for device in plan.probe.devices)
    env = llmperf_worker_env(replace(plan, probe=replace(plan.probe, devices=devices)))
    assert "DS_ACCELERATOR" not in env


def test_steps_with_states_on_the_host_are_not_traced(program):
    spec = program.make_spec(
        {"framework": "zero", "tuning": {"sharding_stage": 2}, "options": {"offload": "optimizer"}}
    )
    with pytest.raises(UserError, match=r"expected framework\.offload=none"):
        llmperf_trace_step(SimpleNamespace(spec=spec), 0)


OFFERS = {"precisions": ["fp32", "bf16"], "runtimes": ["torch"], "collective_backend": "nccl"}
GPU = {"vendor": "nvidia", "devices": [{"index": 0, "model": "GPU", "memory_bytes": None}], "offers": OFFERS}


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine without compilers; a function that puts programs on its path."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CC", "CXX", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "no-cuda"))
    monkeypatch.setattr("llmperf_torchkit.limits.USUAL_CUDA", str(tmp_path / "no-cuda"))

    def put(*names):
        for name in names:
            (tmp_path / name).touch(mode=0o755)

    return put


def problems(program, probe=GPU, tuning=None, **options):
    spec = program.make_spec({"framework": "zero", "tuning": tuning or {}, "options": options})
    found = llmperf_plan_workers(spec, convert(probe, Probe, "probe")).problems
    return [(one.where, one.message) for one in found if one.code.endswith(".compiler")]


def test_no_setting_no_compiler(bare, program):
    assert problems(program) == []


def test_deepspeeds_optimiser_needs_both_on_a_gpu_and_one_on_a_cpu(bare, program):
    ((where, message),) = problems(program, optimizer="deepspeed")
    assert where == "framework.optimizer"
    assert "needs g++ and nvcc" in message
    bare("g++")
    ((_, message),) = problems(program, optimizer="deepspeed")
    assert "g++" not in message
    assert problems(program, program.PROBE, optimizer="deepspeed") == []
    bare("nvcc")
    assert problems(program, optimizer="deepspeed") == []


@pytest.mark.parametrize(("setting", "value"), [("compile", True), ("attention", "flex")])
def test_triton_needs_a_c_compiler(bare, program, setting, value):
    tuning = {setting: value}
    ((where, message),) = problems(program, tuning=tuning)
    assert where == f"tuning.{setting}"
    assert "apt-get install gcc" in message
    bare("gcc")
    assert problems(program, tuning=tuning) == []


def test_what_runs_on_other_machines_is_not_judged_here(bare, program):
    assert problems(program, {**GPU, "simulated": True}, optimizer="deepspeed") == []


def test_doctor_says_what_needs_them(bare):
    host, cuda = deepspeed_facts().host_checks
    assert "framework.optimizer=deepspeed" in host.problem()
    assert cuda.problem() is None
    bare("nvidia-smi", "g++")
    assert host.problem() is None
    assert "nothing else does" in cuda.problem()


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


class TestZero(FrameworkContract):
    plugin = "zero"
    seed = 5
