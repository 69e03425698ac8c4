"""Runs over nodes that a launcher reaches, with real processes: two nodes on this machine, stub plugins."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from llmperf.files import json_files
from llmperf.measuring.processes import send
from llmperf.runfolder import filenames
from llmperf.runfolder.endings import read_nodes, read_reports
from llmperf.types import Result
from llmperf.validation.check import validate_path

RUN = ("run", "default", "--vendor", "stub", "--framework", "stub", "--set", "model=llama_tiny", "--set", "seq_len=16")
LIMIT_SECONDS = 100

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
    pytest.mark.slow,
    pytest.mark.timeout(180),
]


class Command:
    """`llmperf run` over two nodes, and the processes that it leaves."""

    def __init__(self, folder, *words, **environment):
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.mark = f"LLMPERF_TEST_MARK={folder}"
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TMPDIR": str(self.temporary),
            "LLMPERF_TEST_MARK": str(folder),
            **environment,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "llmperf", *RUN, "--launcher", "pair", *words, "--out", str(folder / "runs")],
            env=self.environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def run(self):
        (run,) = (self.folder / "runs").iterdir()
        return run

    def wait_for_steps(self, count):
        deadline = time.monotonic() + LIMIT_SECONDS
        while time.monotonic() < deadline:
            files = list(self.folder.glob("runs/*/records/rank-*.jsonl"))
            if len(files) == 2 and all(path.read_text().count('"step"') >= count for path in files):
                return
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.05)
        raise AssertionError("no steps came")

    def processes(self, word=""):
        """Processes of this command, those whose command line has the word."""
        pids = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                marked = self.mark.encode() in (entry / "environ").read_bytes().split(b"\0")
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if marked and word in line and int(entry.name) != os.getpid():
                pids.append(int(entry.name))
        return pids

    def end(self):
        """Exit status and result, after nothing is left of it."""
        self.out, self.err = self.process.communicate(timeout=LIMIT_SECONDS)
        deadline = time.monotonic() + LIMIT_SECONDS
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert self.processes() == []
        return self.process.returncode, json_files.load(self.run / filenames.RESULT, Result)


@pytest.fixture
def command(stub_site, install, tmp_path):
    install("llmperf-pair", "pair", Path(__file__).with_name("llmperf_pair.py").read_text(), role="extension")
    begun = []

    def begin(*words, **environment):
        begun.append(Command(tmp_path, *words, **environment))
        return begun[-1]

    yield begin
    for one in begun:
        one.process.kill()
        one.process.communicate()
        for pid in one.processes():
            send(pid, signal.SIGKILL)


TWO = ("--set", "nodes=2", "--devices", "1")
LONG = (*TWO, "--set", "steps=100000", "--set", "data.repeat=true")


def test_records_logs_and_clocks_come_back(command, tmp_path):
    status, result = (run := command(*TWO, "--set", "steps=8", "--set", "warmup_steps=2")).end()
    assert (status, result.status, result.hardware.nodes, result.metrics.measured_steps) == (0, "complete", 2, 6), (
        run.err
    )
    assert {report.node_rank for report in read_reports(run.run)} == {0, 1}
    assert [node.node_rank for node in result.conditions] == [0, 1]
    assert all(node.before.memory_available_bytes > 0 for node in result.conditions)
    nodes = read_nodes(run.run)
    assert [node.host for node in nodes] == ["left", "right"]
    assert all(abs(node.clock_offset_seconds) <= node.clock_error_seconds + 0.01 for node in nodes)
    assert [node.undelivered for node in nodes] == [None, None]
    assert not [finding for finding in validate_path(run.run)[0].findings if finding.severity == "error"]
    assert not list(run.temporary.glob("llmperf-*"))


def test_a_killed_rank_is_named_with_its_node(command):
    run = command(*LONG)
    run.wait_for_steps(5)
    os.kill(read_reports(run.run)[1].ranks[0].pid, signal.SIGKILL)
    status, result = run.end()
    assert (status, result.failure.reason, result.failure.rank, result.failure.node_rank) == (1, "killed", 1, 1)
    assert len(result.loss_curve) >= 3  # of both ranks


def test_a_killed_agent_is_named_with_its_node(command):
    run = command(*LONG)
    run.wait_for_steps(5)
    os.kill(read_reports(run.run)[1].pid, signal.SIGKILL)
    status, result = run.end()
    assert (status, result.failure.message) == (1, "the agent of node 1 (right) was killed by SIGKILL")


def lost(command, number):
    """A run whose program on node 1 gets a signal, that program, and the result, in which the node is lost."""
    run = command(*LONG)
    run.wait_for_steps(5)
    (program,) = [pid for pid in run.processes("llmperf_remote.node") if b"LLMPERF_NODE_RANK=1" in environ(pid)]
    os.kill(program, number)
    status, result = run.end()
    assert (status, result.failure.reason, result.failure.node_rank) == (1, "lost", 1)
    return run, program, result


def test_records_of_a_killed_node_program_are_fetched(command):
    run, _, result = lost(command, signal.SIGKILL)
    assert result.failure.message.startswith("node 1 (right): the connection has ended: ")
    assert [node.undelivered for node in read_nodes(run.run)] == [None, None]
    assert not list(run.temporary.glob("llmperf-*/*"))


def test_nothing_runs_on_after_the_controller_was_killed(command):
    run = command(*LONG)
    run.wait_for_steps(5)
    for pid in run.processes("llmperf run"):
        send(pid, signal.SIGKILL)
    run.process.kill()
    run.process.communicate()
    deadline = time.monotonic() + LIMIT_SECONDS
    while run.processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert run.processes() == []
    assert len(list(run.temporary.glob("llmperf-*/*"))) == 2  # what the controller did not get
    ours = filenames.records_path(run.run, 1)
    (theirs,) = run.temporary.glob("llmperf-*/*-001-*/records/rank-00001.jsonl")
    whole = theirs.read_bytes()
    ours.write_bytes(ours.read_bytes()[: len(whole) // 2])  # as if less had come
    recover = [sys.executable, "-P", "-m", "llmperf", "recover", str(run.run)]
    done = subprocess.run(recover, env=run.environment, cwd=run.folder, capture_output=True, text=True)
    assert (done.returncode, ours.read_bytes()) == (1, whole), done.stderr
    assert re.search(r"node 1 \(right\): [\d,]+ bytes of records and logs were fetched", done.stderr)
    assert [node.undelivered for node in read_nodes(run.run)] == [None, None]
    assert not list(run.temporary.glob("llmperf-*"))


def test_an_interrupted_run_keeps_its_records(command):
    run = command(*LONG)
    run.wait_for_steps(5)
    run.process.send_signal(signal.SIGINT)
    status, result = run.end()
    assert (status, result.status) == (130, "aborted")
    assert len(result.loss_curve) >= 3  # of both ranks


def test_a_silent_node_is_given_up_and_its_ranks_end(command):
    run, program, result = lost(command, signal.SIGSTOP)
    assert re.search(r"has not answered for \d+ s", result.failure.message)
    assert not Path(f"/proc/{program}").exists()
    assert not list(run.temporary.glob("llmperf-*"))


def test_a_suspended_controller_blames_no_node(command):
    run = command(*LONG)
    run.wait_for_steps(5)
    suspended = [run.process.pid, *run.processes("llmperf run")]
    for pid in suspended:
        send(pid, signal.SIGSTOP)
    deadline = time.monotonic() + LIMIT_SECONDS
    while run.processes("llmperf_remote.node") and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in suspended:
        send(pid, signal.SIGCONT)
    status, result = run.end()
    assert (status, result.failure.reason, result.failure.node_rank) == (1, "controller", None)
    assert re.match(r"llmperf did not run for \d+ s: it was suspended", result.failure.message)
    assert len(result.loss_curve) >= 5


def environ(pid):
    return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
