"""Following records while they grow: of many ranks, of a rank far behind, within a time limit."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from llmperf.launching import progress
from llmperf.launching.progress import Follower
from llmperf.runfolder import filenames
from llmperf.runfolder.reader import Recorder
from llmperf.types import DeviceSample, MemorySample, StepRecord

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / filenames.RECORDS).mkdir()
    return tmp_path


def write(folder, rank, steps):
    with Recorder(filenames.records_path(folder, rank)) as recorder:
        for step in steps:
            known = {"measured": True, "at": 1.0, "monotonic": 1.0, "step_seconds": 0.5, "tokens": 4, "loss": 1.0}
            recorder.write(StepRecord(rank=rank, step=step, **known))


def test_a_look_that_is_cut_short_goes_on_with_the_next_rank(folder, stub_plan):
    follower = Follower(folder, stub_plan(ranks=4))
    for rank in range(4):
        write(folder, rank, [1])
    seen = []
    while follower.look(0.0):
        seen.append(follower.finished_steps)
    assert seen[:4] == [(1, 0, 0, 0), (1, 1, 0, 0), (1, 1, 1, 0), (1, 1, 1, 1)]
    assert [step.step for step in follower.take_steps()] == [1]


def test_steps_that_a_rank_far_behind_has_not_finished_do_not_fill_the_memory(folder, stub_plan, monkeypatch):
    monkeypatch.setattr(progress, "MAX_OPEN_STEPS", 10)
    follower = Follower(folder, stub_plan())
    write(folder, 0, range(1, 101))
    assert follower.look()
    assert follower.take_steps() == ()
    write(folder, 1, range(1, 101))
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
