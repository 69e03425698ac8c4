"""`llmperf run` as a user types it, with DeepSpeed ZeRO on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def llmperf(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "llmperf", *words], cwd=cwd, capture_output=True, text=True, timeout=240
    )


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


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
    if {entry["value"] for entry in result["mfu"]} == {None}:  # other work is running on this host
        assert "other processes used" in done.stdout
    else:
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
