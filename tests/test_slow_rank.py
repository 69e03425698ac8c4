"""A rank that is really slower than the other is named, with what it cost."""

import json
import os
import signal
import time

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

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
