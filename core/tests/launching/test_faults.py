"""Faults done for real: each ends the run, leaves no process, and leaves a result that says what it was."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from llmperf.files import json_files
from llmperf.launching.controller import Controller
from llmperf.launching.wakeup import Wakeup
from llmperf.results.run_result import build_result
from llmperf.runfolder import filenames
from llmperf.runfolder.endings import read_ending, read_reports
from llmperf.runfolder.reader import RecordFile
from llmperf.types import Result, StepRecord
from llmperf.validation.check import validate_path

CONTROLLER = Path(__file__).parents[1] / "stub" / "run_controller.py"
LIMIT_SECONDS = 100
"""For what takes a few seconds on a machine that has nothing else to do."""
STALL_SECONDS = 4.0
"""A healthy rank on a busy machine may pause for longer than a second."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


class Run:
    """A controller process on a plan."""

    def __init__(self, plan, tmp_path, run=None):
        self.plan = plan
        self.run = run or tmp_path / "run"
        json_files.save(tmp_path / "plan-in.json", plan)
        self.process = subprocess.Popen(
            [sys.executable, str(CONTROLLER), str(tmp_path / "plan-in.json"), str(self.run)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait(self):
        """Exit status and result, after the run has ended in time and nothing is left of it."""
        self.out, self.err = self.process.communicate(timeout=LIMIT_SECONDS)
        assert processes_of(self.plan) == []
        return self.process.returncode, json_files.load(self.run / filenames.RESULT, Result)

    def wait_for_steps(self, count, ranks=(0, 1)):
        deadline = time.monotonic() + LIMIT_SECONDS
        while any(len(steps_of(self.run, rank)) < count for rank in ranks):
            assert time.monotonic() < deadline, self.process.poll()
            time.sleep(0.02)


def processes_of(plan):
    """Living processes of a run, by the variable that all of them carry."""
    mark = f"LLMPERF_RUN_ID={plan.run_id}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_bytes():
                found.append((entry.name, (entry / "cmdline").read_bytes()))
        except OSError:
            continue
    return found


def steps_of(run, rank):
    return [one for one in RecordFile(filenames.records_path(run, rank)).new() if isinstance(one, StepRecord)]


@pytest.fixture
def start(tmp_path):
    runs = []

    def start_run(plan, run=None):
        runs.append(Run(plan, tmp_path, run))
        return runs[-1]

    yield start_run
    for one in runs:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


@pytest.mark.slow
def test_another_model_than_the_plans_fails_before_the_first_step(start, stub_plan):
    plan = stub_plan(parameters=12_345)
    run = start(plan)
    _, result = run.wait()
    assert (result.status, result.failure.reason) == ("failed", "exception")
    assert result.failure.message == (
        "framework 'stub' (llmperf-stub): the trainer built a model of 12,345 parameters,"
        f" expected {plan.flops.parameters:,} ({plan.spec.model.name}, family 'llama'): another model than the plan's"
    )
    assert steps_of(run.run, 0) == []


@pytest.mark.slow
def test_a_rank_that_raises(start, stub_plan):
    run = start(stub_plan(steps=5000, fault="raises"))
    status, result = run.wait()
    assert (status, result.status) == (1, "failed")
    assert (result.failure.rank, result.failure.reason) == (1, "exception")
    assert result.failure.exception == "ValueError"
    assert result.failure.message == "rank 1 has had enough"
    assert "ValueError: rank 1 has had enough" in result.failure.log_tail
    assert len(steps_of(run.run, 1)) == 5
    assert len(steps_of(run.run, 0)) >= 4
    assert len(result.loss_curve) >= 4
    assert result.metrics.tokens_per_second_per_device is None


@pytest.mark.slow
def test_secrets_in_the_environment_reach_no_file_but_the_log(start, stub_plan, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_VerySecret")
    monkeypatch.setenv("NCCL_API_KEY", "OtherSecret")
    plan = stub_plan(fault="tells secrets", fault_rank=0, env={"STUB_PASSWORD": "OpenSesame", "STUB_MODE": "fast"})
    run = start(plan)
    status, result = run.wait()
    assert (status, result.failure.message) == (1, "denied: [withheld] and [withheld]")
    assert "RuntimeError: denied: [withheld] and [withheld]" in result.failure.log_tail
    assert result.software.environment["STUB_MODE"] == "fast"
    for path in [one for one in run.run.rglob("*") if one.is_file() and "logs" not in one.parts]:
        found = {one for one in ("hf_VerySecret", "OtherSecret", "OpenSesame") if one in path.read_text()}
        assert not found, path
    differing = [one for file in validate_path(run.run) for one in file.findings if one.path.startswith("/failure")]
    assert differing == []


@pytest.fixture
def small_memory():
    """A control group with 768 MiB."""
    folder = Path("/sys/fs/cgroup/memory")
    names = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
    if not folder.is_dir():
        folder, names = folder.parent, ("memory.max", "memory.swap.max")
    group = folder / f"llmperf-test-{os.getpid()}"
    try:
        group.mkdir()
        for name in names:
            if (group / name).exists():
                (group / name).write_text("0" if "swap" in name else str(768 * 2**20))
        assert (group / names[0]).exists()
    except (OSError, AssertionError) as error:
        pytest.skip(f"cannot make a control group with a limit of memory: {error}")
    yield group
    group.rmdir()


@pytest.mark.slow
def test_a_rank_for_which_there_is_no_memory(start, stub_plan, small_memory):
    run = start(stub_plan(steps=5000, fault="takes all memory"))
    (small_memory / "cgroup.procs").write_text(str(run.process.pid))
    status, result = run.wait()
    assert (status, result.failure.rank, result.failure.reason) == (1, 1, "killed")
    assert result.failure.message == (
        "rank 1 was killed by SIGKILL: the host, or the control group of the run, was out of memory"
    )


PATIENT = {"stall_seconds": 600.0, "startup_seconds": 600.0}
IMPATIENT = {"stall_seconds": STALL_SECONDS}
ENDS = {
    "cannot build its trainer": ({"fault": "raise at build"}, 1, "exception", "no such layer"),
    "killed": ({"fault": "killed"}, 1, "killed", "rank 1 was killed by SIGKILL"),
    "status 7": ({"fault": "vanishes"}, 1, "exited", "rank 1 ended with status 7"),
    "sys.exit(0)": ({"fault": "exits"}, 1, "exception",
                    r"sys.exit\(0\) before the last step, while measuring, in framework 'stub' \(llmperf-stub\)"),
    "status 0 while building": ({"fault": "leave at build", "waits_at_build": True, **PATIENT}, 1, "exited",
                                "rank 1 ended with status 0 while building, before it was done"),
    "status 0 while measuring": ({"fault": "leaves", **PATIENT}, 1, "exited",
                                 "rank 1 ended with status 0 while measuring, before it was done"),
    "stopped": ({"fault": "stops", **IMPATIENT}, 1, "hung", ".*"),
    "stopped, its peers in a step": ({"fault": "stops", "ranks": 3, "in_step": "host", **IMPATIENT}, 1, "hung",
                                     ".*rank 1 does not even show its stack; the others do.*"),
    "hangs before the first step": ({"fault": "hangs", "fault_step": 0, "startup_seconds": 12.0}, 1, "hung",
                                    r"no rank moved on for \d+ s \(limit 12 s: --startup-timeout\); rank 1 .*"),
    "all hang alike": ({"fault": "waits for nobody", "fault_rank": "all", **IMPATIENT}, None, "hung",
                       ".*which rank hangs cannot be told.*"),
    "hangs and ignores SIGTERM": ({"fault": "deaf", **IMPATIENT}, 1, "hung", ".*"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("options", "rank", "reason", "message"), ENDS.values(), ids=ENDS)
def test_a_rank_that_leaves_or_hangs_is_named_with_the_reason(start, stub_plan, options, rank, reason, message):
    status, result = start(stub_plan(steps=5000, **options)).wait()
    assert (status, result.status, result.failure.rank, result.failure.reason) == (1, "failed", rank, reason)
    assert re.fullmatch(message, result.failure.message, re.DOTALL), result.failure.message
    if reason == "killed":
        assert result.failure.log_tail == ("rank 1: ready",)


@pytest.mark.slow
def test_the_rank_that_hangs_is_named_by_its_steps(start, stub_plan):
    run = start(stub_plan(steps=5000, fault="hangs", stall_seconds=STALL_SECONDS, step_seconds=0.02, in_step=False))
    run.wait_for_steps(30, ranks=(0,))  # the other rank goes on for a while
    os.kill(next(one.pid for one in read_reports(run.run)[0].ranks if one.rank == 0), signal.SIGSTOP)
    status, result = run.wait()
    assert (status, result.status) == (1, "failed")
    assert (result.failure.rank, result.failure.reason) == (1, "hung")
    assert "rank 1 has finished 5 steps" in result.failure.message
    assert any("in hangs" in line for line in result.failure.log_tail)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "waiting"),
    [({}, "in barrier"), ({"in_step": "device", "step_seconds": 0.2}, "loop.py")],
    ids=["its peers wait for it", "its peers only wait for their devices"],
)
def test_the_rank_that_hangs_is_named_by_its_stack(start, stub_plan, options, waiting):
    run = start(stub_plan(steps=5000, fault="hangs", stall_seconds=STALL_SECONDS, **options))
    status, result = run.wait()
    assert (status, result.failure.rank, result.failure.reason) == (1, 1, "hung")
    assert "rank 1 is at trainer.py in hangs; the others wait for it" in result.failure.message
    assert "rank 1: going to sleep" in result.failure.log_tail
    assert waiting in filenames.log_path(run.run, 0).read_text()
    assert len(steps_of(run.run, 0)) == 5


NO_HANGS = {
    "steps longer than the stall timeout": {"steps": 4, "step_seconds": 2.0, "stall_seconds": 0.5},
    "a first step as long as its plan expects": {"steps": 2, "step_seconds": 5.0, "startup_seconds": 4.0},
}


@pytest.mark.slow
@pytest.mark.parametrize("options", NO_HANGS.values(), ids=NO_HANGS)
def test_long_steps_are_no_hang(start, stub_plan, options):
    plan = stub_plan(warmup_steps=1, **options)
    if "startup_seconds" in options:
        plan = replace(plan, expected_step_seconds=5.0)
        assert plan.slow_step_seconds == 50.0
    status, result = start(plan).wait()
    assert (status, result.status, result.failure) == (0, "complete", None)


@pytest.mark.slow
def test_time_in_which_all_processes_were_suspended_is_no_hang(start, stub_plan):
    """As on a virtual machine that is paused; the controller goes on before the ranks do."""
    run = start(stub_plan(steps=100, stall_seconds=8.0, step_seconds=0.05))
    run.wait_for_steps(5)
    ranks = [one.pid for one in read_reports(run.run)[0].ranks]
    for pid in ranks:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(1)  # the controller reads all that they have written
    run.process.send_signal(signal.SIGSTOP)
    time.sleep(9)
    os.kill(run.process.pid, signal.SIGCONT)
    time.sleep(0.5)
    for pid in ranks:
        os.kill(pid, signal.SIGCONT)
    status, result = run.wait()
    assert (status, result.status, result.failure) == (0, "complete", None)


@pytest.mark.slow
def test_a_hang_after_long_steps_tells_its_limit(start, stub_plan):
    """The controller reads the end of the first step late on a busy machine: the second one then seems shorter."""
    run = start(stub_plan(steps=50, fault="hangs", fault_step=5, step_seconds=1.5, stall_seconds=0.5))
    status, result = run.wait()
    assert (status, result.failure.rank, result.failure.reason) == (1, 1, "hung")
    limit = re.search(r"\(limit ([0-9.]+) s: 3 x the longest step so far\)", result.failure.message)
    assert float(limit[1]) >= 0.9 * 3 * 1.5  # of four steps the longest, if the end of the first is read 0.6 s late


@pytest.mark.slow
def test_a_loss_that_is_no_number(start, stub_plan):
    run = start(stub_plan(steps=5000, fault="nan"))
    status, result = run.wait()
    assert (status, result.status) == (1, "failed")
    assert (result.failure.rank, result.failure.reason) == (1, "nonfinite loss")
    assert result.failure.message == "the loss of step 6 is nan"
    assert steps_of(run.run, 1)[-1].nonfinite == "nan"
    assert [(point.loss, point.nonfinite) for point in result.loss_curve if point.step == 6] == [(None, "nan")]
    assert "NaN" not in (run.run / filenames.RESULT).read_text()


@pytest.mark.slow
def test_a_second_interrupt_does_not_wait_for_ranks_that_will_not_end(start, stub_plan):
    run = start(stub_plan(steps=5000, fault="deaf", fault_rank="all"))
    run.wait_for_steps(5)
    for rank in (0, 1):
        while f"rank {rank}: going to sleep" not in filenames.log_path(run.run, rank).read_text():
            time.sleep(0.02)
    run.process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    run.process.send_signal(signal.SIGINT)
    status, result = run.wait()
    assert (status, result.status) == (130, "aborted")
    assert read_ending(run.run).agents == (None,)  # it was killed while it still asked its ranks


@pytest.mark.slow
def test_an_agent_that_fails(start, stub_plan):
    plan = stub_plan()
    plan = replace(
        plan, worker=replace(plan.worker, agent=(sys.executable, "-c", "import sys; sys.exit('no such cluster')"))
    )
    status, result = start(plan).wait()
    assert (status, result.failure.rank, result.failure.reason) == (1, None, "exited")
    assert result.failure.message == "the agent of node 0 ended with status 1"
    assert result.failure.log_tail == ("no such cluster",)


def agent_of(run):
    return read_reports(run.run)[0].pid


def controller_of(run):
    return run.process.pid


WAYS_TO_END = {
    "complete": ({"steps": 20}, None, None, 0, ("complete",)),
    "rank raises": ({"fault": "raises"}, None, None, 1, ("failed", 1, "exception", "rank 1 has had enough")),
    "rank killed": ({"fault": "killed"}, None, None, 1, ("failed", 1, "killed", "rank 1 was killed by SIGKILL")),
    "interrupted": ({}, controller_of, signal.SIGINT, 130,
                    ("aborted", None, "interrupted", "interrupted by SIGINT")),
    "terminated": ({}, controller_of, signal.SIGTERM, 130,
                   ("aborted", None, "interrupted", "interrupted by SIGTERM")),
    "controller killed": ({}, controller_of, signal.SIGKILL, -signal.SIGKILL,
                          ("failed", None, "controller", "llmperf itself ended before the run did")),
    "agent killed": ({}, agent_of, signal.SIGKILL, 1,
                     ("failed", None, "killed", "the agent of node 0 was killed by SIGKILL")),
}  # fmt: skip
"""Options, who gets which signal, the exit code, and what the result says."""


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[pytest.mark.slow] * (way != "interrupted")) for way in WAYS_TO_END]
)
def test_a_run_that_ends_leaves_a_result_and_no_process_of_a_rank(start, stub_plan, way):
    """Not even one with an empty environment and a session of its own."""
    options, victim, how, code, told = WAYS_TO_END[way]
    run = start(stub_plan(**{"steps": 5000, "hidden_child": True, "child": True, **options}))
    if victim is not None:
        run.wait_for_steps(5)
        os.kill(victim(run), how)
    run.process.communicate(timeout=LIMIT_SECONDS)
    assert run.process.returncode == code
    hidden = [int((run.run / f"hidden-{rank}").read_text()) for rank in (0, 1)]
    deadline = time.monotonic() + (LIMIT_SECONDS if how == signal.SIGKILL else 0)
    while (any(map(alive, hidden)) or processes_of(run.plan)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [pid for pid in hidden if alive(pid)] == []
    assert processes_of(run.plan) == []
    saved = run.run / filenames.RESULT
    result = json_files.load(saved, Result) if saved.exists() else build_result(run.run)
    failure = result.failure
    assert (result.status, *((failure.rank, failure.reason, failure.message) if failure else ())) == told
    assert len(result.loss_curve) >= 4


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 4 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.slow
def test_a_disk_that_fills_up(start, stub_plan, small_disk):
    run = start(stub_plan(steps=5000, fault="fills disk"), small_disk / "run")
    status, result = run.wait()
    assert (status, result.status) == (1, "failed")
    assert result.failure.reason == "exception", result.failure
    assert "No space left on device" in result.failure.message
    assert len(steps_of(run.run, 1)) >= 5
    for path in filenames.record_files(run.run):
        assert all(json.loads(line) for line in path.read_text().splitlines())


def refused(run):
    """The line by which a run is refused."""
    _, err = run.process.communicate(timeout=LIMIT_SECONDS)
    assert run.process.returncode == 2
    return err


def test_a_disk_that_is_full_before_the_run(start, stub_plan, small_disk):
    (small_disk / "filler").write_bytes(bytes(4 * 2**20 - 65536))
    err = refused(start(stub_plan(), small_disk / "run"))
    assert err.count("\n") == 1
    assert err.endswith("cannot write: No space left on device\n")
    assert not (small_disk / "run").exists()


@pytest.mark.slow
def test_an_output_folder_that_cannot_be_made_or_exists(start, stub_plan, tmp_path):
    (tmp_path / "file").write_text("")
    run = start(stub_plan(), tmp_path / "file" / "run")
    assert refused(run) == f"{tmp_path}/file: cannot create: File exists\n"
    (tmp_path / "run").mkdir()
    assert refused(start(stub_plan())) == f"{tmp_path}/run: already exists; choose another folder with --out\n"


@pytest.mark.slow
def test_an_output_folder_on_a_disk_that_is_read_only(start, stub_plan, small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    run = start(stub_plan(), small_disk / "run")
    assert refused(run) == f"{small_disk}/run: cannot create: Read-only file system\n"


@pytest.mark.slow
def test_another_version_of_a_plugin_in_the_ranks_environment(start, stub_plan, stub_site):
    plan = stub_plan()
    metadata = stub_site / "llmperf_stub-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 1.1"))
    status, result = start(plan).wait()
    assert (status, result.failure.exception) == (1, "llmperf.errors.PluginError")
    assert result.failure.message == (
        "vendor 'stub': the plan was made with llmperf-stub 1.0,"
        " this rank's environment has llmperf-stub 1.1; install the same on both"
    )


DUMP = """Thread 0x00007f0000000001 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait

Current thread 0x00007f0000000002 (most recent call first):
  File "/x/torch/distributed/distributed_c10d.py", line 1 in barrier
  File "/x/deepspeed/runtime/engine.py", line 2 in step
  File "/x/llmperf_zero/trainer.py", line 3 in train_step
"""


class Hanging:
    """Agents of two nodes whose ranks wait for one another."""

    notes, port = (), 0

    def codes(self):
        return (None, None)

    def lost(self):
        return None

    def stacks(self):
        return dict.fromkeys((0, 1), DUMP)


def test_ranks_on_several_nodes_that_wait_for_one_another_suggest_the_network(tmp_path, stub_plan):
    plan = stub_plan()
    layout = replace(plan.layout, nodes=2, devices_per_node=1)
    plan = replace(plan, worker=replace(plan.worker, layout=layout), startup_seconds=0.5, expected_step_seconds=None)
    controller = Controller(tmp_path, plan, Hanging, ("torch/distributed/",))
    with Wakeup() as wakeup:
        assert controller.watch(wakeup, None) == "hung"
    assert controller.rank is None
    assert controller.message == (
        "no rank moved on for 1 s (limit 0.5 s: --startup-timeout); which rank hangs cannot be told: ranks 0, 1 have"
        " all finished 0 steps and wait for one another; the network between the nodes may carry no data:"
        " `llmperf doctor` with --hosts measures it"
    )
