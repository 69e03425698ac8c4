"""`llmperf run --matrix`, really run, interrupted and killed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing

import pytest
from llmperf.cli.main import call
from llmperf.measuring.processes import left_of_run
from llmperf_sweep.matrix_file import read_matrix
from llmperf_sweep.matrix_folder import Attempt, CellRun, MatrixFolder, document_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

KILLS = 50 if os.environ.get("LLMPERF_ALL_TESTS") else 8
BUSY_SECONDS = 120
"""On a machine so busy that the kills take longer than this, the rest of them is left out."""
CELLS = """
vendors = ["stub"]
frameworks = ["stub"]
devices = 1
repeats = {repeats}
retries = {retries}
[settings]
steps = {steps}
warmup_steps = 1
"framework.step_seconds" = {step_seconds}
seq_len = 32
{more}
"""


@pytest.fixture
def matrix(stub_site, tmp_path, monkeypatch):
    """A function that writes a matrix file with one cell, or with further settings."""
    monkeypatch.chdir(tmp_path)

    def write(repeats=1, retries=0, steps=3, step_seconds=0.01, more=""):
        values = {"repeats": repeats, "retries": retries, "steps": steps, "step_seconds": step_seconds, "more": more}
        (tmp_path / "sweep.toml").write_text(CELLS.format(**values))
        return tmp_path / "runs" / "sweep"

    return write


def started(*options):
    command = [sys.executable, "-P", "-m", "llmperf", "run", "--matrix", "sweep.toml", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ran(*options):
    process = started(*options)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def states(folder):
    return [json.loads(path.read_text()) for path in sorted((folder / "cells").glob("*.json"))]


def result_of(folder, run):
    return json.loads((folder / "runs" / run / "result.json").read_text())


@pytest.mark.slow
def test_a_matrix_from_its_file_to_its_table(matrix, apart):
    more = 'micro_batch = [2, 3]\n"framework.fault_rank" = 0\n"framework.fault" = ["none", "raise at build"]'
    folder = matrix(retries=1, more=more)
    code, out, err = ran()
    assert code == 1
    endings = [line.split()[-1] for line in out.splitlines()[2:6]]
    assert Counter(endings) == {"refused": 2, "failed": 1, "complete": 1}, out
    assert "failed: raise at build micro_batch=2: rank 0: RuntimeError: no such layer" in out.replace("fault=", "")
    assert "is not a multiple of micro batch 3" in out
    assert "[2/2]" in err
    failed = [state for state in states(folder) if len(state["attempts"]) == 2]
    assert [[attempt["state"] for attempt in state["attempts"]] for state in failed] == [["failed", "failed"]]
    (kind, _) = json.loads(apart(0, "summary", folder, "--json").stdout)
    assert kind["spread"]["runs"] == 1
    code, out, err = ran()
    assert (code, out) == (2, "")
    assert "there is a matrix already: continue it with --resume" in err
    code, out, _ = ran("--resume", "--json")
    document = json.loads(out)
    assert code == 1
    assert document["whole"] == {"runs": 2, "complete": 1, "failed": 1, "refused": 2, "seconds_left": 0}


def test_a_dry_run_shows_what_is_complete_and_refuses_what_resume_would(matrix, tmp_path, ran, capsys):
    folder = matrix()
    content = read_matrix(tmp_path / "sweep.toml")
    with closing(MatrixFolder(folder)) as opened:
        opened.open(document_of(content, "local"))
        ended = Attempt(run="run", began="2026-01-01T00:00:00Z", state="complete", tokens_per_second_per_device=1000.0)
        opened.write(CellRun(cell=content.cells[0].identity, repeat=1, attempts=(ended,)))
    matrix(repeats=2)
    assert call(["run", "--matrix", "sweep.toml", "--resume", "--dry-run"]) == 0
    assert "1 cells, 2 runs; 1 complete already; 0 cells refused" in capsys.readouterr().out
    matrix(steps=4)
    assert "1 cells more" in ran(2, "run", "--matrix", "sweep.toml", "--resume", "--dry-run").err


@pytest.mark.slow
def test_an_interrupted_matrix_continues(matrix):
    folder = matrix(repeats=2, steps=18, step_seconds=0.1)
    process = started()
    wait_for(lambda: any(path.stat().st_size for path in (folder / "runs").glob("*/records/rank-00000.jsonl")))
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 130
    assert "continue with: llmperf run --matrix sweep.toml --resume" in err
    assert list((folder / "runs").iterdir()) == []
    (cut_off,) = (folder / "unfinished").iterdir()
    assert json.loads((cut_off / "result.json").read_text())["status"] == "aborted"
    code, _, err = ran("--resume")
    assert code == 0
    assert "default, run 1 of 2: begins" in err
    assert sorted(len(state["attempts"]) for state in states(folder)) == [1, 2]


@pytest.mark.slow
def test_scaling_is_measured_in_turn_and_kept_beside_its_runs(stub_site, tmp_path, apart):
    options = "--vendor stub --framework stub --set steps=4 --set warmup_steps=1 --set seq_len=32 --scale 1,2"
    document = json.loads(apart(0, "run", *options.split(), "--repeat", "2", "--json", cwd=tmp_path).stdout)["scaling"]
    assert json.loads((tmp_path / "runs" / "default-weak-scaling" / "scaling.json").read_text()) == document
    one, two = document["points"]
    assert [len(point["measured"]["throughputs"]) for point in (one, two)] == [2, 2]
    assert [point["measured"]["global_batch"] for point in (one, two)] == [4, 8]
    assert two["speed_up"] == pytest.approx(2 * two["efficiency"])
    assert "the ranks of a node share one Stub S1" in document["notes"][0]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.long
def test_killed_at_random_moments_nothing_is_lost_and_nothing_runs_twice(matrix):
    """Either the command or the process above it is killed, after its start or after that of a run of half a second."""
    draws, repeats = random.Random(20), 32
    begun = time.monotonic()
    folder = matrix(repeats=repeats)
    kept = {}
    for number in range(KILLS):
        if time.monotonic() - begun > BUSY_SECONDS:
            break
        process, before = started("--resume"), set((folder / "runs").glob("*"))
        if number % 4 == 0:
            time.sleep(draws.uniform(0.0, 1.0))
        else:
            wait_for(lambda p=process, before=before: set((folder / "runs").glob("*")) - before or p.poll() is not None)
            time.sleep(draws.uniform(0.0, 0.6))
        if process.poll() is not None:  # nothing was left to do
            process.communicate(timeout=100)
            break
        os.kill(process.pid if number % 2 else child_of(process.pid), signal.SIGKILL)
        process.communicate(timeout=100)
        now = {
            path.parent.name: path.stat().st_ino
            for path in (folder / "runs").glob("*/ending.json")
            if json.loads(path.read_text())["cause"] == "ended"
        }
        assert kept.items() <= now.items(), "a run that had ended is gone"
        kept = now
    code, _, err = ran("--resume")
    assert code == 0, err
    attempts = [attempt for state in states(folder) for attempt in state["attempts"]]
    counts = Counter(attempt["state"] for attempt in attempts)
    complete = {attempt["run"] for attempt in attempts if attempt["state"] == "complete"}
    assert counts["complete"] == len(complete) == repeats == len(states(folder))
    assert set(counts) <= {"complete", "unfinished"}
    assert kept.keys() <= complete == {path.name for path in (folder / "runs").iterdir()}
    assert {result_of(folder, run)["status"] for run in complete} == {"complete"}
    assert counts["unfinished"] > 0, "no kill hit a run"
    assert not any(left_of_run(attempt["run"]) for attempt in attempts)


def wait_for(condition):
    deadline = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def child_of(pid):
    """The command's own process, or the one above it if there is none yet."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return int((file.read().split() or [pid])[0])


QUEUE = '''
"""A launcher that has commands run elsewhere: it prints what it was asked for."""
from llmperf import hookimpl


class Queue:
    name = "queue"
    def nodes(self, request): raise AssertionError("the command is run elsewhere")
    def commands(self, nodes): return nodes
    def preview(self, submission): return f"would submit {submission.request.nodes} nodes, {submission.tasks} tasks"
    def hand_over(self, submission, say):
        say(f"{submission.request.nodes} nodes, {submission.tasks} tasks: {' '.join(submission.command)}")
        return 5


@hookimpl
def llmperf_launchers():
    return [Queue()]
'''


@pytest.mark.parametrize(
    ("words", "nodes", "tasks"),
    [
        (["--matrix", "sweep.toml"], 3, 4),
        (["--matrix", "sweep.toml", "--part", "1/4"], 3, 1),
        (["--scale", "nodes=2,8"], 8, 1),
        (["--scale", "2,16", "--devices", "4"], 4, 1),
    ],
)
def test_a_launcher_has_the_whole_command_run_elsewhere(
    stub_site, install, tmp_path, monkeypatch, ran, words, nodes, tasks
):
    install("acme-queue", "queue", QUEUE, role="extension")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep.toml").write_text('tasks = 4\nvendors = ["stub"]\n[settings]\nnodes = [1, 3, 2]\n')
    words = ["run", *words, "--launcher", "queue"]
    assert ran(5, *words).err == f"{nodes} nodes, {tasks} tasks: {' '.join(words)}\n"
    assert ran(0, *words, "--dry-run").out == f"would submit {nodes} nodes, {tasks} tasks\n"
    assert list(tmp_path.glob("runs/*")) == []
