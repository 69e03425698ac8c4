"""Runs on a real Ray cluster: two Ray nodes with an address each on this machine."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from llmperf.errors import UserError
from llmperf.types import NodeCommand, NodeRequest
from llmperf_ray.launcher import RayLauncher

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": "/tmp", "RAY_raylet_start_wait_time_s": "40"}

ECHO = """
import os, sys
rank = os.environ["LLMPERF_NODE_RANK"]
for line in sys.stdin:
    print(rank, os.environ["SHARED"], line.strip(), "x" * 5000)
print(rank, "has no newline", end="")
print("to standard error", file=sys.stderr)
sys.exit(3 * int(rank))
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ray")
    address = f"127.0.0.1:{free_port()}"
    head = ["--head", f"--port={address.split(':')[1]}", "--node-ip-address=127.0.0.1", "--include-dashboard=false"]
    processes = []
    try:
        for arguments in (head, [f"--address={address}", "--node-ip-address=127.0.0.2"]):
            processes.append(started(arguments, folder / f"{len(processes)}.log"))
        yield address
    finally:
        for process in processes:
            end(process)


def started(arguments, log):
    """A Ray node. Ray gives up when one of its own agents needs 15 s to start, so it goes first where it may."""
    names = ("dashboard-agent-grpc-port", "dashboard-agent-listen-port", "metrics-export-port")
    for _ in range(2):
        ports = [f"--{name}={free_port()}" for name in (*names, "runtime-env-agent-port")]
        start = [Path(sys.executable).with_name("ray"), "start", "--block", "--num-cpus=2", *arguments, *ports]
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*start, "--object-store-memory=100000000"],
                stdout=file,
                stderr=file,
                start_new_session=True,
                env={**os.environ, **QUIET},
                preexec_fn=go_first,
            )
        wait_for(lambda process=process: "Ray runtime started" in log.read_text() or process.poll() is not None)
        if process.poll() is None:
            return process
    pytest.skip(f"Ray does not start here: {log.read_text()[-300:]}")


def go_first():
    with suppress(OSError):
        os.nice(-15)
        Path("/proc/self/autogroup").write_text("-15")


def end(process):
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # Ray's own children end at any time
                child.kill()
    process.kill()
    process.wait(30)


def wait_for(condition, process=None, seconds=150):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, "Ray has ended"
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.1)


def reserved(launcher, cluster, count=2, **options):
    request = NodeRequest(nodes=count, devices=None, hosts=(), options={"address": cluster, **options})
    return launcher.nodes(request)


def bridge(launcher, nodes, code):
    """The process that runs the code on each node."""
    commands = launcher.commands(
        [
            NodeCommand(
                node_rank=rank,
                host=node.host,
                argv=(sys.executable, "-c", code),
                env={"LLMPERF_NODE_RANK": str(rank), "SHARED": "both"},
            )
            for rank, node in enumerate(nodes)
        ]
    )
    assert len(commands) == 1
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(commands[0].argv, env={**os.environ, **commands[0].env}, **pipes)


@pytest.mark.long
def test_each_node_reads_all_input_and_its_lines_come_back_whole(cluster):
    launcher = RayLauncher()
    try:
        nodes = reserved(launcher, cluster)
        assert len({node.address for node in nodes}) == 2
        with bridge(launcher, nodes, ECHO) as process:
            text = "".join(f"line {number}\n" for number in range(200))
            output, errors = process.communicate(text.encode(), timeout=90)
    finally:
        launcher.close()
    lines = output.decode().splitlines()
    for rank in ("0", "1"):
        own = [line for line in lines if line.startswith(rank)]
        assert own == [*(f"{rank} both line {n} {'x' * 5000}" for n in range(200)), f"{rank} has no newline"]
    assert errors.decode().splitlines() == ["to standard error"] * 2
    assert process.returncode == 3


def test_nodes_that_the_cluster_does_not_have(cluster):
    with pytest.raises(UserError) as caught:
        reserved(RayLauncher(), cluster, 3, cpus=2, timeout_seconds=1)
    message = str(caught.value)
    assert "expected 3 nodes with CPU 2 each (STRICT_SPREAD), found 2 of that size, 2 of them free" in message
    assert "127.0.0.2 (CPU 2)" in message


def test_the_death_of_the_controller_ends_the_command_and_gives_the_nodes_back(cluster, tmp_path):
    """A killed controller takes everything with it; the next run gets the same nodes."""
    controller = f"""
import sys, time
sys.path[:0] = {[str(Path(__file__).parent)]!r}
import test_cluster as here
launcher = here.RayLauncher()
nodes = here.reserved(launcher, {cluster!r}, cpus=2)
code = "import os, sys; open({str(tmp_path)!r} + '/' + str(os.getpid()), 'w'); sys.stdin.read()"
process = here.bridge(launcher, nodes, code)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", controller]) as process:
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2, process)
        process.kill()
    pids = [int(path.name) for path in tmp_path.iterdir()]
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), seconds=20)
    launcher = RayLauncher()
    try:
        assert len(reserved(launcher, cluster, cpus=2, timeout_seconds=20)) == 2
    finally:
        launcher.close()


def test_a_run_on_two_nodes_has_the_loss_of_one(cluster, tmp_path):
    (tmp_path / "llmperf.toml").write_text(f'[launchers.ray]\naddress = "{cluster}"\n')
    small = ["--set", "steps=8", "--set", "warmup_steps=2", "--set", "model=llama_tiny", "--set", "seq_len=16"]
    llmperf = [Path(sys.executable).with_name("llmperf"), "run", "default", "--vendor", "cpu", *small]
    runs = {
        "two": ["--framework", "pytorch", "--devices", "1", "--set", "nodes=2", "--launcher", "ray"],
        "one": ["--framework", "pytorch", "--devices", "2"],
    }
    losses = {}
    for name, words in runs.items():
        finished = subprocess.run([*llmperf, *words, "--out", name], cwd=tmp_path, capture_output=True, text=True)
        assert finished.returncode == 0, finished.stderr + finished.stdout
        (path,) = (tmp_path / name).glob("*/result.json")
        losses[name] = json.loads(path.read_text())["metrics"]["final_loss"]
    assert losses["two"] == pytest.approx(losses["one"], rel=1e-6)
