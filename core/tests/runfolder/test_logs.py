"""Logs of ranks that print without end: bounded while the run goes and after it, first and last lines kept."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from llmperf.files import json_files
from llmperf.plugins.loading import load_for
from llmperf.runfolder import filenames
from llmperf.runfolder.endings import read_reports
from llmperf.runfolder.logs import BLOCK_BYTES, HEAD_BYTES, TAIL_BYTES
from llmperf.running.launched import run_plan, save_result
from llmperf.types import Result

CONTROLLER = Path(__file__).parents[1] / "stub" / "run_controller.py"
LINE = len("step 0 line 000000 " + "x" * 40 + "\n")
MOST_BYTES = HEAD_BYTES + TAIL_BYTES + 200

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="starts and kills processes as on Linux")


@pytest.mark.slow
def test_a_log_keeps_its_beginning_and_its_end_and_says_what_is_left_out(stub_plan, tmp_path):
    result = run_plan(stub_plan(steps=30, chatters=True), tmp_path / "run", load_for("stub", "stub"), save_result)
    assert result.status == "complete"
    for rank in (0, 1):
        log = filenames.log_path(tmp_path / "run", rank)
        assert log.stat().st_size <= MOST_BYTES
        lines = log.read_text().splitlines()
        assert (lines[0], lines[-1]) == (f"rank {rank}: ready", f"rank {rank}: closed")
        (note,) = [line for line in lines if line.startswith("[llmperf: ")]
        left_out, size = map(int, re.findall("[0-9]+", note)[:2])
        kept = sum(len(line) + 1 for line in lines if line != note)
        assert left_out == size - kept
        assert size > 30 * 16384 * (LINE - 1)
        assert all(re.fullmatch(r"step [0-9]+ line [0-9]{6} x{40}", line) for line in lines[1:-1] if line != note)


@pytest.mark.slow
def test_the_last_lines_of_a_failed_rank_are_its_own(stub_plan, tmp_path):
    plan = stub_plan(steps=30, chatters=True, fault="raises", fault_step=20)
    result = run_plan(plan, tmp_path / "run", load_for("stub", "stub"), save_result)
    assert "ValueError: rank 1 has had enough" in result.failure.log_tail
    assert filenames.log_path(tmp_path / "run", 1).stat().st_size <= MOST_BYTES


@pytest.mark.slow
def test_the_disk_is_not_filled_while_the_run_goes_and_a_killed_agent_loses_no_line(stub_plan, tmp_path):
    json_files.save(tmp_path / "plan-in.json", stub_plan(steps=5000, chatters=True, step_seconds=0.1))
    run = tmp_path / "run"
    words = [sys.executable, str(CONTROLLER), str(tmp_path / "plan-in.json"), str(run)]
    controller = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        log = filenames.log_path(run, 1)
        limit = time.monotonic() + 200
        while not log.exists() or log.stat().st_size < 30 * 2**20:
            assert time.monotonic() < limit
            time.sleep(0.1)
        most_bytes = HEAD_BYTES + TAIL_BYTES + 20 * BLOCK_BYTES
        while log.stat().st_blocks * 512 >= most_bytes:  # the agent trims once a second
            assert time.monotonic() < limit
            time.sleep(0.1)
        size = log.stat().st_size
        agent = read_reports(run)[0].pid
        os.kill(agent, signal.SIGKILL)
        controller.wait(100)
    finally:
        controller.kill()
        controller.wait()
    assert most_bytes < size
    text = log.read_text()
    assert len(text) <= MOST_BYTES
    assert f"step {(run / 'printed-1').read_text()} line 016383 " in text
    assert (
        json_files.load(run / filenames.RESULT, Result).failure.message == "the agent of node 0 was killed by SIGKILL"
    )
