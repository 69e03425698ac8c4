"""What others take of the host and its devices is seen, and what a run's own processes take is not counted as that."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from llmperf.measuring import sampler
from llmperf.measuring.processes import send
from llmperf.measuring.sampler import HostMeter, busy_ticks, own_pids, own_ticks, processes_here
from llmperf.plugins.loading import load_for
from llmperf.runfolder.readings import HostLoad, HostReading, busy_parts, busy_text
from llmperf.running.launched import run_plan, save_result
from llmperf.types import DeviceSample
from llmperf.types.hosts import BusyProgram, LoadBefore
from llmperf.types.records import HostSample

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc as Linux has it")

NAME = "open('/proc/self/comm', 'w').write('stranger-that-burns')\n"
BURN = NAME + "import time\nend = time.monotonic() + 300\nwhile time.monotonic() < end: pass"
DETACHED = f"""import subprocess, sys
print(subprocess.Popen([sys.executable, '-c', {BURN!r}], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)"""
TICKS = os.sysconf("SC_CLK_TCK")
PROGRAM = "stranger-that-b"
"""As the kernel keeps the name of the stranger, 15 characters."""


@pytest.fixture
def stranger():
    """A process that computes and is no descendant of this one: its parent has ended."""
    pid = int(subprocess.run([sys.executable, "-c", DETACHED], capture_output=True, text=True, check=True).stdout)
    yield pid
    send(pid, signal.SIGKILL)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def own():
    """The ids of this process and its descendants, and their CPU time."""
    processes = processes_here()
    pids = own_pids(processes, os.getpid())
    return pids, own_ticks(processes, pids)


def test_busy_time_is_that_of_the_cores_that_a_run_may_use():
    text = "cpu 9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 4 8 16 32 64 128 7 7\ncpu1 5 0 0 100 0 0 0 0 0 0\nintr 1\n"
    assert busy_ticks(text, [0]) == 1 + 2 + 4 + 32 + 64 + 128
    assert busy_ticks(text, [0, 1]) == 231 + 5


def test_own_children_count_as_own_while_they_run_and_after(stranger):
    reaped = sum(os.times()[2:4])
    child = subprocess.Popen([sys.executable, "-c", BURN])
    try:
        before, ticks_before = own()
        assert child.pid in before
        assert stranger not in before
        had, others = cpu_seconds(child.pid), cpu_seconds(stranger)
        while cpu_seconds(child.pid) < had + 0.3 or cpu_seconds(stranger) < others + 0.3:
            time.sleep(0.05)
        spent = cpu_seconds(child.pid) - had  # at least: it computes until it is killed
    finally:
        child.kill()
        child.wait()
    after, ticks_after = own()
    assert child.pid not in after
    seconds = (ticks_after - ticks_before) / TICKS
    assert spent <= seconds + 2 / TICKS
    mine = sum(os.times()[:2]) + sum(os.times()[2:4]) - reaped
    assert seconds <= mine + 2 / TICKS  # of the stranger's time there is none in it


def test_programs_on_cores_of_others_do_not_count():
    def process(name, core, ticks):
        times = {"ticks": ticks, "waited_ticks": 0, "start": 5}
        return sampler.Process(name=name, state="R", parent=1, session=1, core=core, **times)

    meter = HostMeter()
    before = {7: process("here", 0, 100), 8: process("elsewhere", 9, 100), 9: process("own", 0, 100)}
    after = {7: process("here", 0, 130), 8: process("elsewhere", 9, 190), 9: process("own", 0, 190)}
    after[10] = process("here", 1, 4)  # another process of the same program, which was started meanwhile
    assert meter._programs(before, frozenset({9}), {0, 1}) == []
    assert meter._programs(after, frozenset({9}), {0, 1}) == [("here", 34)]


def host(busy, own, cores=2):
    return HostSample(cores=cores, busy_seconds=busy, own_seconds=own)


@pytest.mark.parametrize(
    ("samples", "share"),
    [
        ([(0.0, host(10, 5)), (10.0, host(30, 25))], 0.0),
        ([(0.0, host(10, 5)), (10.0, host(30, 15))], 0.5),
        ([(0.0, host(10, 5)), (5.0, host(15, 1)), (10.0, host(25, 6))], 0.5),  # own processes were lost in between
        ([(0.0, host(10, 5)), (10.0, host(30, 15, cores=4))], None),
        ([(0.0, host(10, 5))], None),
    ],
)
def test_the_share_of_others_is_what_the_run_has_not_had(samples, share):
    load = HostLoad()
    for at, reading in samples:
        load.add(HostReading(at, reading))
    assert load.share == share


@pytest.mark.slow
def test_a_process_that_computes_beside_a_run_is_told_before_it_and_in_its_result(
    stub_plan, tmp_path, stranger, monkeypatch
):
    """As `llmperf run` does it: one line before the start, two figures and a finding afterwards."""
    from llmperf.validation.catalogue import Catalogue
    from llmperf.validation.check import findings

    monkeypatch.setattr(sampler, "MAX_PROGRAMS", 1000)  # whatever else computes here
    told, plugins = [], load_for("stub", "stub")
    plan = stub_plan(steps=30, step_seconds=0.05)
    had, began = cpu_seconds(stranger), time.monotonic()
    result = run_plan(plan, tmp_path / "run", plugins, save_result, warn=told.append, sample_seconds=0.2)
    least = (cpu_seconds(stranger) - had) / (time.monotonic() - began) / len(os.sched_getaffinity(0))
    assert len(told) == 1
    assert told[0].startswith("the machine is busy: other processes use ")
    assert told[0].endswith("; the run will be disturbed")
    assert PROGRAM in told[0]
    assert 0.1 < result.metrics.other_cpu_share_before <= 1
    assert f" {100 * result.metrics.other_cpu_share_before:.0f} % of the cores" in told[0]
    (node,) = result.conditions
    assert PROGRAM in {program.name for program in node.programs}
    assert node.before.programs[0].cpu_share > 0.05
    assert node.most_other_cpu_share >= node.other_cpu_share
    assert node.least_memory_available_bytes > 0
    assert result.metrics.other_cpu_share > least / 2
    if result.metrics.other_cpu_share > 0.1:
        assert "LP409" in [one.code for one in findings("result", result, Catalogue(plugins))]


def test_processes_on_the_devices_that_are_not_of_the_run_are_counted(tmp_path, monkeypatch):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    ids = {0: (os.getpid(), child.pid), 1: (child.pid, 1)}
    namespace = [sampler.INITIAL_PID_NAMESPACE]
    monkeypatch.setattr(sampler.os, "readlink", lambda path: namespace[0])

    def device(index, pids):
        return DeviceSample(index=index, memory_used_bytes=None, memory_total_bytes=None, process_ids=pids)

    try:
        devices = [device(index, pids) for index, pids in ids.items()]
        meter = HostMeter()
        assert meter.read(devices).other_processes == 1
        assert meter.read(devices[:1]).other_processes == 0
        assert meter.read([device(0, None)]).other_processes is None
        namespace[0] = "pid:[1]"  # a container's: the driver counts otherwise, and own ranks would seem strangers
        assert meter.read(devices).other_processes is None
        watching = sampler.Sampler(tmp_path / "m.jsonl", lambda _: tuple(devices), (0, 1), interval=0.01)
        assert watching.look(0.0).other_processes == 3
        assert "other processes compute on the devices: 3" in list(busy_parts(watching.look(0.0)))
        namespace[0] = sampler.INITIAL_PID_NAMESPACE
        assert any(program.startswith("python") for program in watching.look(0.0).device_programs)
    finally:
        child.kill()
        child.wait()


def test_a_first_reading_that_hangs_or_raises_does_not_keep_a_run_from_starting(tmp_path, monkeypatch):
    monkeypatch.setattr(sampler, "FIRST_READING_SECONDS", 0.1)
    for query in (lambda _: time.sleep(30) or (), lambda _: 1 / 0):
        begin = time.monotonic()
        before = sampler.Sampler(tmp_path / "m.jsonl", query, (0,)).look(0.0)
        assert before.other_processes is None
        assert time.monotonic() - begin < 25


IDLE = LoadBefore(
    other_cpu_share=0.02,
    programs=(BusyProgram(name="node_exporter", cpu_share=0.02),),
    other_processes=0,
    utilisation_percent=97.0,  # left over from a run that has just ended
    throttle_reasons=("power limit", "clock setting"),
    load_average=12.0,
    pressure={"cpu": 0.9, "memory": 0.05, "io": 0.5},
    memory_total_bytes=100,
    memory_available_bytes=50,
    swapped_bytes_per_second=4096.0,
)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, None),
        ({"other_cpu_share": 0.45, "programs": (BusyProgram(name="cc1plus", cpu_share=0.3),)},
         "the machine is busy: other processes use 45 % of the cores (cc1plus 30 %)"),
        ({"other_processes": 2, "device_programs": ("python3",), "memory_available_bytes": 4},
         "the machine is busy: other processes compute on the devices: 2 (python3),"
         " only 0.0 of 0.0 GiB of memory are free"),
        ({"other_processes": None}, "the machine is busy: a device is in use (97 %)"),
        ({"throttle_reasons": ("heat", "power limit")}, "the machine is busy: a device is slowed by heat"),
        ({"pressure": {"memory": 0.4}}, "the machine is busy: processes wait for memory 40 % of the time"),
        ({"swapped_bytes_per_second": 5e8}, "the machine is busy: the host swaps 477 MiB a second"),
    ],
)  # fmt: skip
def test_a_busy_machine_is_described_in_one_line(changes, text):
    assert busy_text(replace(IDLE, **changes)) == text
    assert busy_text(LoadBefore()) is None
