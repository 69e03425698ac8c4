"""`llmperf run` as a user types it, with DeepSpeed ZeRO on this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LONG = ["--set", "steps=400", "--set", "model=llama_tiny"]


def llmperf(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "llmperf", *words], cwd=cwd, capture_output=True, text=True, timeout=240
    )


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def processes_of(run: Path) -> list[int]:
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


def worker_of(run: Path, rank: int) -> int:
    for process in processes_of(run):
        variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        if b"RANK=%d" % rank in variables:
            return process
    raise AssertionError(f"no process of rank {rank}")


def test_the_default_run_leaves_everything_a_user_was_promised(tmp_path):
    done = llmperf("run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "token/p/s" in done.stdout
    assert "MFU" in done.stdout
    run = only_run(tmp_path)
    present = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    wanted = {"plan.json", "result.json", "report.md", "memory.jsonl", "files/ds_config.json"}
    wanted |= {f"records/rank-0000{rank}.jsonl" for rank in (0, 1)} | {f"logs/rank-0000{rank}.log" for rank in (0, 1)}
    assert wanted <= present
    result = json.loads((run / "result.json").read_text())
    assert (result["status"], result["variant"], result["fix_hp"]) == ("complete", False, [])
    assert [one["name"] for one in result["plugins"] if one["role"] == "framework"] == ["zero"]
    assert all(0 < entry["value"] < 1 for entry in result["mfu"])
    assert result["loss_curve"][-1]["loss"] < result["loss_curve"][0]["loss"]
    assert llmperf("validate", "runs", cwd=tmp_path).returncode == 0
    assert "Llama mini" in llmperf("report", str(run), cwd=tmp_path).stdout


def test_every_framework_and_stage_gives_one_loss_curve(tmp_path):
    """fp32, 10 steps: one process, DDP and ZeRO 0 to 3 over two ranks, each within 1e-4 at every step."""
    small = ["--set", "model=llama_tiny", "--set", "steps=10", "--set", "warmup_steps=2", "--json"]
    ways = {"one process": ["--framework", "pytorch", "--devices", "1", "--set", "micro_batch=2"]}
    ways["DDP"] = ["--framework", "pytorch", "--devices", "2"]
    ways |= {f"ZeRO-{stage}": ["--framework", "zero", "--set", f"sharding_stage={stage}"] for stage in range(4)}
    curves = {}
    for name, words in ways.items():
        done = llmperf("run", "default", *words, *small, cwd=tmp_path)
        assert done.returncode == 0, f"{name}: {done.stderr}"
        curves[name] = [point["loss"] for point in json.loads(done.stdout)["result"]["loss_curve"]]
    for name, curve in curves.items():
        assert curve == pytest.approx(curves["one process"], abs=1e-4), name


def start_and_wait(folder: Path, *words: str) -> tuple[subprocess.Popen[str], Path]:
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


def kill(run: Path, _: int) -> None:
    os.kill(worker_of(run, 1), signal.SIGKILL)


def stop(run: Path, _: int) -> None:
    os.kill(worker_of(run, 1), signal.SIGSTOP)


def interrupt(_: Path, controller: int) -> None:
    os.kill(controller, signal.SIGINT)


@pytest.mark.parametrize(
    ("fault", "status", "reason", "rank", "code"),
    [
        (kill, "failed", "killed", 1, 1),
        (stop, "failed", "hung", 1, 1),
        (interrupt, "aborted", "interrupted", None, 130),
    ],
    ids=["a rank is killed", "a rank hangs", "Ctrl-C"],
)
def test_a_fault_ends_the_run_and_is_told(
    tmp_path: Path, fault: Callable[[Path, int], None], status: str, reason: str, rank: int | None, code: int
):
    stall = 4
    run, folder = start_and_wait(tmp_path, "--stall-timeout", str(stall))
    fault(folder, run.pid)
    began = time.monotonic()
    _, errors = run.communicate(timeout=60)
    assert time.monotonic() - began < 15 + stall * (reason == "hung"), errors
    assert run.returncode == code
    assert processes_of(folder) == []
    result = json.loads((folder / "result.json").read_text())
    assert (result["status"], result["failure"]["reason"], result["failure"]["rank"]) == (status, reason, rank)
    assert len(result["loss_curve"]) >= 3
