"""A rank that is killed or hangs, a loss that is no number, Ctrl-C: under each framework the run ends and says why."""

import json
import os
import signal
from itertools import product
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


FAULTS = {
    "a rank is killed": (signal.SIGKILL, "failed", "killed", 1, 1),
    "a rank hangs": (signal.SIGSTOP, "failed", "hung", 1, 1),
    "Ctrl-C": (signal.SIGINT, "aborted", "interrupted", None, 130),
}
OFTEN = {
    *(("zero", "a rank hangs"), ("pytorch", "a rank is killed"), ("pytorch", "Ctrl-C")),
    *(("megatron PP2", "a rank is killed"), ("paddle TP2", "a rank is killed"), ("paddle TP2", "a rank hangs")),
}
PAIRS = [pytest.param(*pair, marks=[] if pair in OFTEN else [pytest.mark.long]) for pair in product(FRAMEWORKS, FAULTS)]


@pytest.mark.parametrize(("framework", "fault"), PAIRS)
def test_a_fault_ends_the_run_and_is_told(running, framework, fault):
    number, status, reason, rank, code = FAULTS[fault]
    stall_seconds = STALL_SECONDS if reason == "hung" else 250
    run, folder, pid = running("default", *LONG, "--stall-timeout", str(stall_seconds), *FRAMEWORKS[framework])
    os.kill(run.pid if rank is None else pid, number)
    _, errors = run.communicate(timeout=100)
    assert run.returncode == code, errors
    assert processes_of(folder) == []
    result = json.loads((folder / "result.json").read_text())
    assert (result["status"], result["failure"]["reason"], result["failure"]["rank"]) == (status, reason, rank)
    assert len(result["loss_curve"]) >= 3


@pytest.mark.parametrize("framework", ["megatron PP2", "paddle TP2"])
def test_a_loss_that_is_no_number_fails_the_run(result_of_run, framework):
    words = ["--set", "steps=50", "--set", "model=llama_tiny", "--set", "lr=1e18"]
    result = result_of_run("default", *words, *FRAMEWORKS[framework], code=1)
    assert (result["status"], result["failure"]["reason"]) == ("failed", "nonfinite loss")
    assert any(point["nonfinite"] for point in result["loss_curve"])
