"""A rank that is killed or hangs, a loss that is no number, Ctrl-C: under each framework the run ends and says why."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LONG = ["--set", "steps=2000", "--set", "model=llama_tiny", "--set", "seq_len=64"]
STALL_SECONDS = 8
"""A healthy rank on a busy machine may pause for seconds."""

TENSOR = ("--set", "tensor_parallel=2")
FRAMEWORKS = {
    "zero": (),
    "pytorch": ("--framework", "pytorch"),
    "megatron TP2": ("--framework", "megatron_deepspeed", *TENSOR),
    "megatron PP2": ("--framework", "megatron_deepspeed", "--set", "pipeline_parallel=2"),
    "paddle TP2": ("--framework", "paddle", *TENSOR),
    "lora": ("--framework", "lora", "--set", "contract.lora.rank=8"),
}


def processes_of(run):
    """Living processes that belong to a run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if run.name.encode() in words and state != "Z":
                found.append(int(entry.name))
    return found


def worker_of(run, rank):
    for process in processes_of(run):
        with suppress(OSError):  # it has just ended
            if b"RANK=%d" % rank in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                return process
    raise AssertionError(f"no process of rank {rank}")


def start_and_wait(folder, *words):
    """A long run, once its ranks have made a few steps."""
    argv = [sys.executable, "-m", "llmperf", "run", "default", *LONG, *words]
    run = subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    limit = time.monotonic() + 120
    while time.monotonic() < limit:
        assert run.poll() is None, run.communicate()
        for records in (folder / "runs").glob("*/records/rank-00001.jsonl"):
            if len(re.findall(r'"kind":"step"', records.read_text())) >= 3:
                return run, records.parents[1]
        time.sleep(0.1)
    raise AssertionError("no step in 120 s")


def kill(run, _):
    os.kill(worker_of(run, 1), signal.SIGKILL)


def stop(run, _):
    os.kill(worker_of(run, 1), signal.SIGSTOP)


def interrupt(_, controller):
    os.kill(controller, signal.SIGINT)


FAULTS = {
    "a rank is killed": (kill, "failed", "killed", 1, 1),
    "a rank hangs": (stop, "failed", "hung", 1, 1),
    "Ctrl-C": (interrupt, "aborted", "interrupted", None, 130),
}
PAIRS = [("zero", fault) for fault in FAULTS]
PAIRS += [(name, "a rank is killed") for name in FRAMEWORKS if name != "zero"]
PAIRS += [("paddle TP2", "a rank hangs")]
PAIRS += [
    pytest.param(name, "a rank hangs", marks=pytest.mark.long)
    for name in FRAMEWORKS
    if name not in ("zero", "paddle TP2")
]


@pytest.mark.parametrize(("framework", "fault"), PAIRS)
def test_a_fault_ends_the_run_and_is_told(tmp_path, framework, fault):
    happen, status, reason, rank, code = FAULTS[fault]
    stall_seconds = STALL_SECONDS if reason == "hung" else 250
    run, folder = start_and_wait(tmp_path, "--stall-timeout", str(stall_seconds), *FRAMEWORKS[framework])
    happen(folder, run.pid)
    _, errors = run.communicate(timeout=100)
    assert run.returncode == code, errors
    assert processes_of(folder) == []
    result = json.loads((folder / "result.json").read_text())
    assert (result["status"], result["failure"]["reason"], result["failure"]["rank"]) == (status, reason, rank)
    assert len(result["loss_curve"]) >= 3


@pytest.mark.parametrize("framework", ["megatron PP2", "paddle TP2"])
def test_a_loss_that_is_no_number_fails_the_run(tmp_path, framework):
    words = ["--set", "steps=50", "--set", "model=llama_tiny", "--set", "lr=1e18", *FRAMEWORKS[framework], "--json"]
    argv = [sys.executable, "-m", "llmperf", "run", "default", *words]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 1
    result = json.loads(done.stdout)["result"]
    assert (result["status"], result["failure"]["reason"]) == ("failed", "nonfinite loss")
    assert any(point["nonfinite"] for point in result["loss_curve"])
