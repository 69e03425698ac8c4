"""Compilers are missed only by the settings that need them, before a rank starts."""

import pytest
from llmperf.files.json_files import convert
from llmperf.types import Probe
from llmperf_zero.options import deepspeed_facts
from llmperf_zero.plugin import llmperf_plan_workers

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
