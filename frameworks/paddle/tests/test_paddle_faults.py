"""A rank that hangs longer than Paddle's gloo waits, and a port that is taken."""

import json
import os
import signal
import socket

import pytest
from llmperf.launching import run_here
from llmperf.planning.build import plan_run
from llmperf.planning.ready import ready
from llmperf.planning.states import Selection, Site
from llmperf.running.measure import measure

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]

LONG = ["default", "--framework", "paddle", "--set", "model=llama_tiny", "--set", "steps=4000", "--set", "seq_len=64"]


@pytest.mark.long
def test_the_rank_that_hangs_is_named_though_gloo_gives_up_first(running):
    """Gloo waits 30 s, the controller 34: the waiting replica must neither abort nor be taken for the cause."""
    run, folder, rank = running(*LONG, "--set", "sharding_stage=0", "--stall-timeout", "34")
    os.kill(rank, signal.SIGSTOP)
    _, errors = run.communicate(timeout=120)
    assert run.returncode == 1, errors
    failure = json.loads((folder / "result.json").read_text())["failure"]
    assert (failure["reason"], failure["rank"]) == ("hung", 1)
    assert "gloo gave up after 30 s" in (folder / "logs" / "rank-00000.log").read_text()


def test_a_port_that_another_process_has_taken_has_the_ranks_started_once_more(tmp_path, monkeypatch):
    free_port = run_here.free_port
    with socket.create_server(("127.0.0.1", 0)) as taken:
        chosen = iter([taken.getsockname()[1]])
        monkeypatch.setattr(run_here, "free_port", lambda: next(chosen, None) or free_port())
        settings = ("model=llama_tiny", "steps=4", "warmup_steps=1", "seq_len=64")
        sketch = ready(plan_run(Selection("default", framework="paddle", settings=settings), Site(vendor="cpu")))
        ((_, result),) = measure(sketch, tmp_path, 1, None)
    assert (result.status, result.failure) == ("complete", None)
    assert any("the ranks were started a second time" in note for note in result.notes)
