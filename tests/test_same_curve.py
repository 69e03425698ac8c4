"""Every framework starts from the same weights, sees the same tokens, and gives the same losses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "benchmarks" / "same_curve.py"
OTHERS = ("zero", "megatron_deepspeed", "paddle", "transformers", "megatron_core", "torchtitan")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_seven_frameworks_give_one_curve(tmp_path):
    out = tmp_path / "runs"
    done = subprocess.run([sys.executable, str(PROGRAM), "--out", str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("pytorch (reference)", *OTHERS):
        assert name in done.stdout
    assert "loss, nats per token, by step" in done.stdout
    runs = [str(next((out / name).iterdir())) for name in (*OTHERS, "pytorch")]
    command = [sys.executable, "-m", "llmperf", "align", *runs, "--json", "--from-step", "1"]
    for one in json.loads(subprocess.run(command, capture_output=True, text=True).stdout):
        apart = [abs(step["loss"] - step["reference"]) for step in one["steps"]]
        assert len(apart) == 20
        assert apart[0] <= 1e-5, one["run_id"]
        assert max(apart) <= 1e-3, one["run_id"]
