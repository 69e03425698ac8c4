"""A rank that is really slower than the other is named, with what it cost."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from llmperf.files import json_files
from llmperf.runfolder.endings import AgentReport

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PAUSES = ((signal.SIGSTOP, 0.09), (signal.SIGCONT, 0.03))
"""Of the rank that is held back: far longer than those of a rank on a busy machine."""
SETTINGS = ("model=llama_tiny", "steps=25", "warmup_steps=3")


def pid_of(runs, rank):
    """The process of a rank, once it computes."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for report in runs.glob("*/records/agent-000.json"):
            records = report.with_name(f"rank-{rank:05d}.jsonl")
            if records.exists() and '"step"' in records.read_text():
                return json_files.load(report, AgentReport).ranks[rank].pid
        time.sleep(0.1)
    raise AssertionError("the rank did not start")


def held_back(pid, run):
    """Stop a process for most of the time until the run ends."""
    while run.poll() is None:
        for number, seconds in PAUSES:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                return
            time.sleep(seconds)


def test_a_rank_that_is_held_back_is_named(tmp_path):
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    command = [sys.executable, "-m", "llmperf", "run", "default", "--framework", "pytorch", "--devices", "2", *words]
    run = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    held_back(pid_of(tmp_path / "runs", 1), run)
    output, _ = run.communicate(timeout=150)
    assert run.returncode == 0, output
    (folder,) = (tmp_path / "runs").iterdir()
    result = json.loads((folder / "result.json").read_text())
    (straggler,) = result["waiting"]["stragglers"]
    assert (straggler["rank"], straggler["node_rank"]) == (1, 0)
    assert result["waiting"]["most_share"] > result["waiting"]["least_share"]
    assert 0.1 * result["metrics"]["window_seconds"] < result["waiting"]["cost_seconds"]
    (line,) = [line for line in output.splitlines() if line.startswith("stragglers")]
    assert "rank 1; without that the window might be" in line
