"""`llmperf run` as a user types it, with DeepSpeed ZeRO on this machine."""

import json
import os
import signal
import time
from itertools import product
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_the_default_run_leaves_everything_a_user_was_promised(tmp_path, apart):
    done = apart(0, "run", cwd=tmp_path)
    assert "token/p/s" in done.stdout
    assert "MFU" in done.stdout
    (run,) = (tmp_path / "runs").iterdir()
    present = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    wanted = {"plan.json", "result.json", "report.md", "memory.jsonl", "files/ds_config.json"}
    wanted |= {f"records/rank-0000{rank}.jsonl" for rank in (0, 1)} | {f"logs/rank-0000{rank}.log" for rank in (0, 1)}
    assert wanted <= present
    result = json.loads((run / "result.json").read_text())
    assert (result["status"], result["variant"], result["fix_hp"]) == ("complete", False, [])
    assert [one["name"] for one in result["plugins"] if one["role"] == "framework"] == ["zero"]
    assert all(0 < entry["value"] < 1 for entry in result["mfu"])
    assert result["loss_curve"][-1]["loss"] < result["loss_curve"][0]["loss"]
    apart(0, "validate", "runs", cwd=tmp_path)
    assert "Llama mini" in apart(0, "report", run, cwd=tmp_path).stdout


@pytest.fixture(scope="module")
def curve(apart):
    """A function that gives the losses of a run in fp32."""
    small = ["--set", "model=llama_tiny", "--set", "steps=6", "--set", "warmup_steps=2", "--json"]

    def of(words, folder):
        done = apart(0, "run", "default", *words, *small, cwd=folder)
        return [point["loss"] for point in json.loads(done.stdout)["result"]["loss_curve"]]

    return of


@pytest.fixture(scope="module")
def one_process(tmp_path_factory, curve):
    """The losses of one plain process."""
    return curve(["--framework", "pytorch", "--devices", "1", "--set", "micro_batch=2"], tmp_path_factory.mktemp("one"))


WAYS = {
    "DDP": ["--framework", "pytorch", "--devices", "2"],
    "ZeRO-3": ["--framework", "zero", "--set", "sharding_stage=3"],
}


@pytest.mark.parametrize("way", WAYS)
def test_two_ranks_give_the_loss_curve_of_one_process(way, one_process, tmp_path, curve):
    """fp32, 6 steps, each within 1e-4; other stages are in frameworks/zero/tests/test_zero_losses.py."""
    assert curve(WAYS[way], tmp_path) == pytest.approx(one_process, abs=1e-4)


PAUSES = ((signal.SIGSTOP, 0.09), (signal.SIGCONT, 0.03))
"""Of the rank that is held back: far longer than those of a rank on a busy machine."""
SETTINGS = ("model=llama_tiny", "steps=25", "warmup_steps=3")


def held_back(pid, run):
    """Stop a process for most of the time until the run ends."""
    while run.poll() is None:
        for number, seconds in PAUSES:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                return
            time.sleep(seconds)


def test_a_rank_that_is_held_back_is_named(running):
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    run, folder, pid = running("default", "--framework", "pytorch", "--devices", "2", *words)
    held_back(pid, run)
    output, _ = run.communicate(timeout=150)
    assert run.returncode == 0, output
    result = json.loads((folder / "result.json").read_text())
    (straggler,) = result["waiting"]["stragglers"]
    assert (straggler["rank"], straggler["node_rank"]) == (1, 0)
    assert result["waiting"]["most_share"] > result["waiting"]["least_share"]
    assert 0.1 * result["metrics"]["window_seconds"] < result["waiting"]["cost_seconds"]
    (line,) = [line for line in output.splitlines() if line.startswith("stragglers")]
    assert "rank 1; without that the window might be" in line


RUNS = [
    pytest.param("llama2_7b_pretrain_megatron", 4, "megatron_deepspeed", marks=pytest.mark.long),
    ("llama2_7b_lora", 1, "lora"),
    ("baichuan2_13b_pretrain_zero", 2, "zero"),
    pytest.param("llama2_7b_pretrain_zero", 2, "zero", marks=pytest.mark.long),
    ("llama1_7b_pretrain_paddle", 2, "paddle"),
]


@pytest.mark.parametrize(("case", "ranks", "framework"), RUNS)
def test_a_published_case_on_a_small_model(result_of_run, case, ranks, framework):
    result = result_of_run(case, "--set", "model=llama_tiny", "--devices", str(ranks))
    assert (result["status"], result["variant"], result["case"]) == ("complete", True, case)
    assert result["tuning"]["framework"] == framework
    assert {"contract.model", "contract.seq_len"} <= {change["path"] for change in result["fix_hp"]}
    assert result["metrics"]["tokens_per_second_per_device"] > 0
    assert [one["code"] for one in result["findings"] if one["severity"] == "error"] == []


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
    "paddle PP2": ("--framework", "paddle", "--set", "pipeline_parallel=2", "--set", "sharding_stage=0"),
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
    *(("megatron PP2", "a rank is killed"), ("paddle PP2", "a rank is killed"), ("paddle TP2", "a rank hangs")),
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
