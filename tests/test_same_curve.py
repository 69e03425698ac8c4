"""Every framework starts from the same weights, sees the same tokens, and gives the same losses."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "benchmarks" / "same_curve.py"


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_eight_frameworks_give_one_curve(tmp_path):
    command = [sys.executable, str(PROGRAM), "--models", "qwen3_tiny", "--out", str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if "|" in line]
    refused = {(framework, layout) for framework, layout, figure in rows if figure == "refused"}
    assert refused == {("lora", "DDP"), ("torchtitan", "EP2"), ("megatron_core", "EP2")}
    assert len({framework for framework, *_ in rows[2:]}) == 8
