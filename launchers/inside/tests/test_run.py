"""Runs in a job of another engine: real processes of torchrun, and of an engine that sets variables alone."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPTS = Path(sys.executable).parent
LLMPERF = SCRIPTS / "llmperf"
SMALL = ["--set", "steps=8", "--set", "warmup_steps=2", "--set", "model=llama_tiny", "--set", "seq_len=16"]
CASE = ["run", "default", "--vendor", "cpu", "--framework", "pytorch", *SMALL]
RUN = [LLMPERF, *CASE, "--devices", "1", "--set", "nodes=2", "--launcher", "inside"]


def free_ports():
    """A port with another free one after it."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def member(rank, port, size=2, **variables):
    """The variables of a process as its engine sets them: one process on each node."""
    known = {"RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **variables}
    return {**os.environ, **{name: str(value) for name, value in known.items()}}


def start(command, env, **options):
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def results(runs):
    return [json.loads(path.read_text()) for path in runs.glob("*/result.json")]


def lost(out, timeout, tmp_path, *ranks, **variables):
    """The outputs and exit codes of processes that do not find each other."""
    (tmp_path / "llmperf.toml").write_text(f"[launchers.inside]\ntimeout_seconds = {timeout}\n")
    port = free_ports()
    processes = [start([*RUN, "--out", out], member(rank, port, **variables), cwd=tmp_path) for rank in ranks]
    return [(process.communicate(timeout=200)[0], process.returncode) for process in processes]


@pytest.mark.slow
def test_a_node_without_the_secret_says_what_to_set(tmp_path):
    [(output, code)] = lost("runs", 0.5, tmp_path, 1)
    assert "set LLMPERF_SECRET to the same random text on all nodes, or name a folder with --out that all" in output
    assert code == 2


@pytest.mark.slow
def test_node_0_says_how_many_nodes_came(tmp_path):
    [(output, code)] = lost("runs", 0.5, tmp_path, 0)
    assert re.search(r"1 of 2 nodes came to 127.0.0.1:\d+ within 0.5 s", output)
    assert code == 2
    assert not list((tmp_path / "runs").glob(".inside*"))  # the secret is gone


@pytest.mark.slow
def test_numbers_that_differ_between_nodes_end_both(tmp_path):
    (tmp_path / "llmperf.toml").write_text("[launchers.inside]\ntimeout_seconds = 100\n")
    port = free_ports()
    command = [*RUN, "--out", "runs"]
    processes = [start(command, member(rank, port, size), cwd=tmp_path) for rank, size in ((0, 2), (1, 3))]
    for process in processes:
        output = process.communicate(timeout=200)[0]
        assert "has 1 of 3 processes, node 0 has 1 of 2; start equally many on each node" in output
        assert process.returncode == 2


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(400)
def test_torchrun_starts_two_processes_on_each_of_two_nodes(tmp_path):
    """The run has the loss of the same two ranks on one node, and all processes its exit code."""
    port = free_ports()
    env = {name: value for name, value in os.environ.items() if name != "LLMPERF_SECRET"}
    agents = []
    for node in range(2):
        torchrun = [SCRIPTS / "torchrun", "--nnodes=2", "--nproc-per-node=2", f"--node-rank={node}", "--no-python"]
        where = ["--master-addr=127.0.0.1", f"--master-port={port}"]
        agents.append(start([*torchrun, *where, *RUN, "--out", tmp_path / "inside"], env, cwd=tmp_path))
    try:
        for agent in agents:
            output = agent.communicate(timeout=380)[0]
            assert agent.returncode == 0, output
    finally:
        for agent in agents:
            agent.terminate()
    local = [LLMPERF, *CASE, "--devices", "2", "--out", tmp_path / "local"]
    subprocess.run(local, cwd=tmp_path, check=True, capture_output=True)
    (inside,), (local,) = results(tmp_path / "inside"), results(tmp_path / "local")
    assert inside["status"] == local["status"] == "complete"
    assert inside["metrics"]["final_loss"] == pytest.approx(local["metrics"]["final_loss"], rel=1e-6)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_end_of_node_0_ends_the_other_node(tmp_path):
    port = free_ports()
    command = [*RUN, "--set", "steps=100000", "--out", tmp_path / "runs"]
    processes = [start(command, member(rank, port), cwd=tmp_path, start_new_session=True) for rank in (0, 1)]
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("runs/*/records/rank-00001.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    os.killpg(processes[0].pid, signal.SIGKILL)
    processes[0].wait()
    output = processes[1].communicate(timeout=200)[0]
    assert processes[1].returncode == 1
    assert "the connection with node 0 has ended" in output
