"""A real Slurm of two nodes: steps, runs and jobs, and what ends them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

LLMPERF = str(Path(sys.executable).with_name("llmperf"))
STEPS = str(Path(__file__).with_name("steps_program.py"))
ALLOCATION = ("salloc", "--quiet", "--nodes=2", "--exclusive", "--mem=0")
SMALL = (
    *("default", "--framework", "pytorch", "--set", "model=llama_tiny", "--set", "seq_len=32"),
    *("--set", "micro_batch=1", "--set", "warmup_steps=1"),
)
TWO_NODES = ("--launcher", "slurm", "--no-screening", "--set", "nodes=2", "--devices", "1")
ENDLESS = (
    *("default", "--vendor", "stub", "--framework", "stub", "--set", "model=llama_tiny", "--set", "seq_len=16"),
    *("--set", "steps=100000", "--set", "framework.step_seconds=0.05"),
)
"""A run that starts quickly and lasts until something ends it."""
BOUND_SECONDS = 120.0


def test_lines_of_steps_are_whole_and_gpus_are_those_of_the_job(idle_cluster):
    printed = idle_cluster.call(*ALLOCATION, "--gpus=4", sys.executable, STEPS, "node2", "node1")
    report = json.loads(printed.splitlines()[-1])
    assert report["addresses"] == ["10.77.13.12", "10.77.13.11"]
    for host, rank in (("node2", "0"), ("node1", "1")):
        assert report[host] == {
            "rank": int(rank),
            "good": 20_000,
            "other": [[rank, "first", "600001 0,1"], [rank, "long", 600_000, True], [rank, "rest", "last"]],
            "code": 0,
        }


def test_a_submitted_run_has_the_loss_of_one_node_and_its_exit_code(idle_cluster, project):
    steps = ("--set", "steps=6", "--json")
    run = Followed(idle_cluster, project, *SMALL, *steps)
    assert run.wait() == 0, run.text
    assert "submitted job " in run.text
    assert re.search(r"job \d+: RUNNING on node\[1-2\]", run.text)
    assert re.search(r"job \d+ has ended: COMPLETED, exit code 0", run.text)
    result = json.loads((project / "output").read_text())["result"]
    assert [node["host"] for node in result["nodes"]] == ["node1", "node2"]
    assert_nothing_left(idle_cluster)
    on_one = subprocess.run(
        [LLMPERF, "run", *SMALL, *steps, "--devices", "2"], cwd=project, capture_output=True, text=True
    )
    expected = json.loads(on_one.stdout)["result"]
    losses, wanted = ([point["loss"] for point in each["loss_curve"]] for each in (result, expected))
    assert losses == pytest.approx(wanted, abs=2e-5)
    assert len(wanted) == 6


def test_ctrl_c_cancels_the_job_and_keeps_its_records(idle_cluster, stub_site, project):
    run = Followed(idle_cluster, project, *ENDLESS)
    run.wait_for_steps()
    seconds = run.after(lambda: run.signal(signal.SIGINT))
    assert seconds < BOUND_SECONDS
    assert run.process.returncode == 130
    assert re.search(r"job \d+ is cancelled", run.text)
    assert run.result()["status"] == "aborted"
    assert_nothing_left(idle_cluster)


def test_a_node_that_goes_down_is_named(idle_cluster, stub_site, project):
    run = Followed(idle_cluster, project, *ENDLESS)
    run.wait_for_steps()
    seconds = run.after(lambda: idle_cluster.kill_node("node2"))
    assert seconds < BOUND_SECONDS
    assert run.process.returncode == 1
    result = run.result()
    assert result["status"] in ("failed", "aborted")
    assert "node2" in result["failure"]["message"]
    assert result["nodes"][1]["lost_seconds"] is not None
    assert_nothing_left(idle_cluster)


def test_preemption_ends_the_run_and_requeues_the_job(idle_cluster, stub_site, project):
    (project / "llmperf.toml").write_text('[launchers.slurm]\npartition = "low"\nrequeue = true\n')
    run = Followed(idle_cluster, project, *ENDLESS)
    run.wait_for_steps()
    began = time.monotonic()
    idle_cluster.run("srun", "--partition=high", "--nodes=2", "--exclusive", "true")
    seconds = time.monotonic() - began
    print(f"{seconds:.1f} s until the other job had run")
    assert seconds < BOUND_SECONDS
    assert run.result()["status"] == "aborted"
    run.wait_for_text(r"job \d+ was requeued")
    run.signal(signal.SIGINT)
    assert run.wait() == 130
    assert re.search(r"job \d+ is cancelled", run.text)


@pytest.mark.long
def test_a_link_that_stays_down_ends_the_run_on_both_sides(idle_cluster, stub_site, project):
    run = Followed(idle_cluster, project, *ENDLESS)
    run.wait_for_steps()
    seconds = run.after(lambda: idle_cluster.link("node2", "down"))
    assert seconds < BOUND_SECONDS
    assert "node2" in run.result()["failure"]["message"]
    assert_nothing_left(idle_cluster)


@pytest.mark.long
def test_the_time_limit_ends_the_run_in_order(idle_cluster, stub_site, project):
    run = Followed(idle_cluster, project, *ENDLESS)
    run.wait_for_steps()
    minutes = int(time.monotonic() - run.began) // 60 + 1  # SIGTERM comes 60 s before: at Slurm's next look, every 30 s
    seconds = run.after(lambda: idle_cluster.run("scontrol", "update", f"JobId={run.job}", f"TimeLimit={minutes}"))
    assert seconds < BOUND_SECONDS
    assert run.process.returncode not in (0, None)
    assert run.result()["status"] == "aborted"
    assert_nothing_left(idle_cluster)


def assert_nothing_left(cluster):
    """No process of a run is on any node."""
    limit = time.monotonic() + 100  # a node ends by itself what it has started, 20 s after its connection was lost
    while left := [line for node in ("node1", "node2") for line in cluster.command_lines(node) if "llmperf" in line]:
        assert time.monotonic() < limit, left
        time.sleep(0.5)


@pytest.fixture
def project(tmp_path):
    """A working directory."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


class Followed:
    """`llmperf run` on the login node, which submits a job and follows it."""

    def __init__(self, cluster, folder, *words):
        self.folder = folder
        self.began = time.monotonic()
        with (folder / "output").open("wb") as output, (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                cluster.within(LLMPERF, "run", *words, *TWO_NODES), cwd=folder,
                env={**os.environ, **cluster.env}, stdin=subprocess.DEVNULL, stdout=output, stderr=log,
            )  # fmt: skip

    @property
    def text(self):
        return (self.folder / "log").read_text(errors="replace")

    @property
    def job(self):
        """Its number."""
        return re.search(r"submitted job (\d+)", self.text)[1]

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=250.0):
        """The exit code."""
        self._wait_until(lambda: self.process.poll() is not None, "end", seconds)
        return self.process.returncode

    def after(self, event):
        """Seconds from an event to the end of the command."""
        event()
        began = time.monotonic()
        self.wait()
        seconds = time.monotonic() - began
        print(f"{seconds:.1f} s after the event")
        return seconds

    def wait_for_text(self, pattern, seconds=100.0):
        self._wait_until(lambda: re.search(pattern, self.text), pattern, seconds)

    def wait_for_steps(self):
        """Wait until a rank of the other node has written steps."""

        def steps():
            records = self.folder.glob("runs/*/records/rank-00001.jsonl")
            return any(path.read_text().count('"step"') > 2 for path in records)

        self._wait_until(steps, "steps", 120.0)

    def result(self):
        """The result of the only run folder."""
        self._wait_until(lambda: list(self.folder.glob("runs/*/result.json")), "a result", 100.0)
        (path,) = self.folder.glob("runs/*/result.json")
        return json.loads(path.read_text())

    def _wait_until(self, condition, what, seconds):
        limit = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < limit, f"no {what}: {self.text}"
            time.sleep(0.3)
