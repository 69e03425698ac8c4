"""Trainers and whole runs on a device type of torch's that is neither a CPU nor CUDA, as accelerators are used.

Its kernels are the CPU's, so losses are a CPU's too. Tensors of two devices in one operation are an error, events and
copies to the host arrive late, and memory is counted: see `second_device/llmperf_accel/backend.cpp`.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(shutil.which("c++") is None, reason="needs c++, which compiles the device's stand-in"),
]

HERE = Path(__file__).parent / "second_device"
ROOT = HERE.parents[1]
CONFTEST = ROOT / "frameworks" / "conftest.py"

_specification = importlib.util.spec_from_file_location("llmperf_ranks_on_a_second_device", CONFTEST)
_shared = importlib.util.module_from_spec(_specification)
_specification.loader.exec_module(_shared)
forks, train_torch, train = _shared.forks, _shared.train_torch, _shared.train

LORA = {"rank": 4, "alpha": 16, "dropout": 0.0, "target_modules": ["q_proj", "v_proj"]}
WITHIN = {"fp32": 1e-4, "bf16": 0.02, "fp16": 0.02}
STEPS = 4


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Where the stand-in is compiled, once."""
    folder = tmp_path_factory.mktemp("accel")
    code = f"import sys; sys.path.insert(0, {str(HERE)!r}); from llmperf_accel.runtime import install; install()"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "ACCEL_BUILD": str(folder)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def task(framework, precision, stage=0, device="accel"):
    lora = {"lora": LORA} if framework == "lora" else {}
    contract = {"precision": precision, "steps": STEPS, **lora}
    tuning = {"micro_batch": 1, "sharding_stage": stage}
    return {"framework": framework, "device": device, "contract": contract, "tuning": tuning}


KEYS = {
    1: [("pytorch", "fp32", 0), ("pytorch", "fp16", 0), ("lora", "bf16", 0)],
    2: [("pytorch", "fp16", 0), ("pytorch", "bf16", 3), ("lora", "bf16", 0)],
}
"""What is trained on so many devices: framework, precision, sharding stage."""


@pytest.fixture(scope="module")
def trained(built, train):
    """The results of each rank by number of ranks, framework, precision and stage."""
    results = {}
    for world, keys in KEYS.items():
        tasks = [task(*key) for key in keys]
        ranks = train(tasks, world, program=HERE / "program.py", seconds=900, ACCEL_BUILD=str(built))
        results |= {(world, *key): [rank[index] for rank in ranks] for index, key in enumerate(keys)}
    return results


@pytest.fixture(scope="module")
def on_a_cpu(train):
    """Losses of one rank on a CPU in fp32, by framework."""
    names = ("pytorch", "lora")
    tasks = [{**task(name, "fp32", device="cpu"), "tuning": {"micro_batch": 2}} for name in names]
    return {name: result["losses"] for name, result in zip(names, train(tasks, 1, seconds=900), strict=True)}


@pytest.mark.parametrize("key", [(world, *key) for world in KEYS for key in KEYS[world]], ids=str)
def test_it_learns_what_a_cpu_learns_and_the_host_does_not_wait(trained, on_a_cpu, key):
    (world, framework, precision, _), ranks = key, trained[key]
    waits = 1 if precision == "fp16" else 0  # torch's GradScaler, for optimisers that are not fused
    for rank, result in enumerate(ranks):
        assert result["places"] == [f"accel:{rank}"]
        assert result["skipped"] == [False] * STEPS
        assert result["early"] == [False], "a loss was there before the device had copied it"
        for step in result["steps"]:
            assert (step["waits"], step["pageable_copies"]) == (waits, 0)
            assert step["late_copies"] == (3 if precision == "fp16" else 2)  # loss, norm, overflow
        assert 0 < result["peak"] <= result["reserved"]
    mean = [sum(losses) / world for losses in zip(*(result["losses"] for result in ranks), strict=True)]
    assert mean == pytest.approx(on_a_cpu[framework], abs=WITHIN[precision])


def test_a_tensor_on_the_wrong_device_is_an_error(built, train):
    wrong = {**task("pytorch", "fp32"), "misplaced": True}
    (((result,),),) = (train([wrong], 1, program=HERE / "program.py", seconds=900, ACCEL_BUILD=str(built)),)
    assert "expected all tensors on one device, found accel:0 and cpu" in result["error"]


def test_a_run_on_two_devices(built, tmp_path, result_of_run, announced):
    announced(tmp_path / "site", "llmperf-accel", vendor="accel = llmperf_accel.plugin")
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(HERE)]), "ACCEL_BUILD": str(built)}
    small = ("model=llama_tiny", "steps=6", "warmup_steps=2", "seq_len=64")
    words = ["default", "--vendor", "accel", "--framework", "pytorch", "--devices", "2"]
    result = result_of_run(*words, *(word for value in small for word in ("--set", value)), **env)
    metrics = result["metrics"]
    assert (result["status"], result["hardware"]["device_model"]) == ("complete", "Accel T1")
    assert [rank["rank"] for rank in metrics["rank_memory"]] == [0, 1]
    assert all(0 < rank["peak_bytes"] <= rank["reserved_bytes"] for rank in metrics["rank_memory"])
    assert all(step["step_seconds"] > 0 for step in steps(tmp_path))
    assert metrics["tokens_per_second_per_device"] > 0


def steps(folder):
    """The records of steps of all ranks of the only run below a folder."""
    lines = [line for path in folder.glob("runs/*/records/*.jsonl") for line in path.read_text().splitlines()]
    found = [record for record in map(json.loads, lines) if "step_seconds" in record]
    assert len(found) == 2 * 6
    return found
