"""The parts of a launch that need no training: commands, variables, folders, how far a run is."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.launching import progress
from llmperf.launching.agent import rank_environment
from llmperf.launching.progress import Follower
from llmperf.launching.run_here import this_host
from llmperf.plugins.loading import load_for
from llmperf.runfolder import filenames
from llmperf.runfolder.create import create_run_folder
from llmperf.runfolder.reader import Recorder
from llmperf.running.launched import run_plan, save_result
from llmperf.types import DeviceSample, Facts, MemorySample, PhaseRecord, Result, StepRecord


def test_each_rank_gets_its_place_and_the_frameworks_own_variables(stub_plan, tmp_path):
    plan = stub_plan(env={"OMP_NUM_THREADS": "1"})
    own = {"OWN": "{rank}/{local_rank}/{world_size}/{node_rank} {other} {run_dir}", "MASTER_PORT": "9"}
    plan = replace(plan, worker=replace(plan.worker, rank_env=own))
    given = rank_environment(tmp_path, plan, 1, 1, "host", 77)
    assert given["OWN"] == f"3/1/2/1 {{other}} {tmp_path}"
    assert (given["RANK"], given["LOCAL_RANK"], given["WORLD_SIZE"], given["LOCAL_WORLD_SIZE"]) == ("3", "1", "2", "2")
    assert (given["NODE_RANK"], given["GROUP_RANK"], given["MASTER_ADDR"]) == ("1", "1", "host")
    assert given["MASTER_PORT"] == "9"
    assert given["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize("name", ["../out.json", "/etc/out.json", "a/../../out", "", "a\\b", "a\0b"])
def test_a_framework_writes_nothing_outside_the_run_folder(stub_plan, tmp_path, name):
    plan = stub_plan()
    plan = replace(plan, worker=replace(plan.worker, files={name: "{}"}))
    with pytest.raises(UserError, match="is not a name inside the run folder"):
        create_run_folder(tmp_path / "run", plan)
    assert not (tmp_path / "run").exists()


def test_of_the_environment_only_named_variables_are_kept(monkeypatch):
    environment = {
        "NCCL_DEBUG": "INFO",
        "OMP_NUM_THREADS": "4",
        "SECRET_TOKEN": "x",
        "HOME": "/h",
        "NCCL_X": "\x1b" * 999,
        "NCCL_TOKEN": "x",
        "NCCL_CRED": "x",
        "FLAGS_password": "x",
        "TORCH_NCCL_Api_Key": "x",
        "XPU_CREDENTIALS": "x",
        "TOKENIZERS_PARALLELISM": "false",
    }
    facts = Facts(
        environment_names=("OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM"),
        environment_prefixes=("NCCL_", "FLAGS_", "TORCH_NCCL_", "XPU_"),
    )
    monkeypatch.setattr("os.environ", environment)
    kept = this_host({}, facts).environment
    expected = {"NCCL_DEBUG": "INFO", "NCCL_X": "?" * 200, "OMP_NUM_THREADS": "4", "TOKENIZERS_PARALLELISM": "false"}
    assert kept == expected


def test_what_plugins_set_for_the_ranks_is_recorded_whatever_its_name(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "x")
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    planned = {"ZEPHYR_FAST_MATH": "1", "OMP_NUM_THREADS": "2", "ZEPHYR_AUTH": "x"}
    kept = this_host(planned, Facts(environment_names=("OMP_NUM_THREADS",))).environment
    assert (kept["ZEPHYR_FAST_MATH"], kept["OMP_NUM_THREADS"]) == ("1", "2")
    assert not {"SECRET_TOKEN", "ZEPHYR_AUTH"} & kept.keys()


def test_an_agent_that_cannot_be_started_leaves_a_failed_result(stub_plan, tmp_path):
    plan = stub_plan()
    plan = replace(plan, worker=replace(plan.worker, agent=("no-such-agent",)))
    with pytest.raises(UserError, match="launcher 'local': cannot start no-such-agent: No such file"):
        run_plan(plan, tmp_path / "run", load_for("stub", "stub"), save_result)
    result = json_files.load(tmp_path / "run" / filenames.RESULT, Result)
    assert (result.status, result.failure.reason) == ("failed", "controller")


@pytest.mark.slow
def test_a_vendor_that_cannot_read_its_devices_does_not_end_the_run(stub_plan, tmp_path, monkeypatch):
    monkeypatch.setenv("LLMPERF_STUB_SAMPLER", "raise")
    result = run_plan(stub_plan(), tmp_path / "run", load_for("stub", "stub"), save_result)
    assert result.status == "complete"
    assert result.notes == ("reading the devices failed: RuntimeError: the management library is gone",)
    assert result.metrics.device_memory_used_bytes is None


def test_the_run_needs_no_tensor_library_in_the_controller():
    code = "import sys, llmperf.running.launched, llmperf.results.run_result; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def step(rank, number, **known):
    figures = {"measured": True, "at": 1.0, "monotonic": 1.0, "step_seconds": 0.5, "tokens": 4, "loss": 1.0}
    return StepRecord(rank=rank, step=number, **figures | known)


def write(folder, rank, records):
    with Recorder(filenames.records_path(folder, rank)) as recorder:
        for record in records:
            recorder.write(record)


def test_progress_is_that_of_the_slowest_rank(stub_plan, tmp_path):
    plan = stub_plan(steps=10, warmup_steps=2)
    (tmp_path / filenames.RECORDS).mkdir()
    follower = Follower(tmp_path, plan)
    assert not follower.look()
    assert follower.progress().phase == "starting"
    assert follower.progress().tokens_per_second_per_device is None
    with Recorder(tmp_path / filenames.MEMORY) as memory:
        devices = (DeviceSample(index=0, memory_used_bytes=5, memory_total_bytes=9),)
        memory.write(MemorySample(at=1.0, monotonic=1.0, query_seconds=0.0, devices=devices))
    for rank in (0, 1):
        write(tmp_path, rank, [PhaseRecord(rank=rank, phase="measuring", at=1.0, monotonic=1.0)])
        losses = {"tokens": 16, "loss": float(rank)}
        write(tmp_path, rank, (step(rank, number, measured=False, step_seconds=9.0, **losses) for number in (1, 2)))
        write(tmp_path, rank, (step(rank, number, **losses) for number in range(3, 5 + rank)))
    write(tmp_path, 0, [PhaseRecord(rank=0, phase="evaluating", at=2.0, monotonic=2.0)])
    assert follower.look()
    now = follower.progress()
    assert (now.phase, now.step, now.steps, now.loss, now.memory_used_bytes) == ("measuring", 4, 10, 0.5, 5)
    assert now.tokens_per_second_per_device == 32 / 0.5 / 2
    assert now.mfu == pytest.approx(32 * 6000 / 5e11)
    assert now.seconds_left == 6 * 0.5
    assert not follower.look()


def test_a_working_directory_that_is_gone_is_one_line(stub_plan, tmp_path, monkeypatch):
    plan, plugins = stub_plan(), load_for("stub", "stub")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UserError, match="runs/x: the working directory does not exist any more"):
        run_plan(plan, Path("runs/x"), plugins, save_result)


ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / filenames.RECORDS).mkdir()
    return tmp_path


def test_a_look_that_is_cut_short_goes_on_with_the_next_rank(folder, stub_plan):
    follower = Follower(folder, stub_plan(ranks=4))
    for rank in range(4):
        write(folder, rank, [step(rank, 1)])
    seen = []
    while follower.look(0.0):
        seen.append(follower.finished_steps)
    assert seen[:4] == [(1, 0, 0, 0), (1, 1, 0, 0), (1, 1, 1, 0), (1, 1, 1, 1)]
    assert [step.step for step in follower.take_steps()] == [1]


def test_steps_that_a_rank_far_behind_has_not_finished_do_not_fill_the_memory(folder, stub_plan, monkeypatch):
    monkeypatch.setattr(progress, "MAX_OPEN_STEPS", 10)
    follower = Follower(folder, stub_plan())
    write(folder, 0, (step(0, number) for number in range(1, 101)))
    assert follower.look()
    assert follower.take_steps() == ()
    write(folder, 1, (step(1, number) for number in range(1, 101)))
    assert follower.look()
    assert [step.step for step in follower.take_steps()] == list(range(91, 101))
    assert follower.finished_steps == (100, 100)
    assert follower.progress().step == 100


def test_the_memory_in_use_is_that_of_the_fullest_device_of_any_node(folder, stub_plan):
    follower = Follower(folder, stub_plan(ranks=2))
    for path, used in ((folder / filenames.MEMORY, 5), (filenames.memory_path(folder, 0), 7)):
        with Recorder(path) as recorder:
            devices = (DeviceSample(index=0, memory_used_bytes=used, memory_total_bytes=9),)
            node = 0 if used == 5 else 1
            recorder.write(MemorySample(at=1.0, monotonic=1.0, query_seconds=0.0, devices=devices, node_rank=node))
    follower.look()
    assert follower.progress().memory_used_bytes == 7


@pytest.mark.slow
def test_memory_does_not_grow_with_the_steps_of_many_ranks():
    script = ROOT / "benchmarks" / "controller_scale.py"
    if not script.exists():
        pytest.skip("the benchmarks are not here")
    words = [sys.executable, str(script), "--ranks", "512", "--steps", "80,240", "--writers", "2", "--json"]
    lines = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    short, long = (
        {part["part"]: part for part in map(json.loads, lines) if part["steps"] == steps} for steps in (80, 240)
    )
    added = (240 - 80) * 512 * 230 / 2**20  # MiB of records that the longer run has more
    for part in ("followed while written", "followed from files", "result"):
        assert long[part]["peak MiB"] - short[part]["peak MiB"] < added / 2
    assert long["result"]["errors"] == 0
    assert long["result"]["result MB"] < 1.5 * short["result"]["result MB"]
