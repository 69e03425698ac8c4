"""Records on disk: whole lines, whatever happens."""

import os
import resource
import signal
import stat
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from llmperf.errors import RunFailed, UserError
from llmperf.files.json_files import writable, write_bytes
from llmperf.measuring.sampler import Sampler
from llmperf.measuring.worker import loaded_packages
from llmperf.runfolder.reader import Recorder, RecordFile
from llmperf.types import DeviceSample, FailureRecord, PhaseRecord, StepRecord


def step(number, **other):
    figures = {"measured": True, "at": 1.0, "monotonic": 1.0, "step_seconds": 0.5, "tokens": 4, "loss": 1.0}
    return StepRecord(rank=0, step=number, **figures | other)


def test_what_is_written_is_read_back_in_order(tmp_path):
    written = [
        PhaseRecord(rank=0, phase="building", at=1.0, monotonic=1.0),
        step(0),
        step(1, loss=None, nonfinite="nan"),
        FailureRecord(rank=0, at=1.0, exception="E", message="zwölf\n\x1b[31m€", traceback=""),
    ]
    with Recorder(tmp_path / "r.jsonl") as recorder:
        for one in written:
            recorder.write(one)
    assert RecordFile(tmp_path / "r.jsonl").new() == written


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{torn", "r.jsonl:2: JSON is malformed"),
        ('{"kind": "stop"}', "r.jsonl:2: unknown kind of record 'stop'; expected one of: phase, step"),
        ('{"kind": "step", "rank": "0"}', "r.jsonl:2: Expected `int`, got `str` - at `$.rank`"),
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path, line, message, one_line):
    path = tmp_path / "r.jsonl"
    with Recorder(path) as recorder:
        recorder.write(step(0))
    with path.open("a") as file:
        file.write(line + "\n")
    with one_line(message):
        RecordFile(path).new()


def test_following_a_file_gives_each_record_once(tmp_path):
    path = tmp_path / "r.jsonl"
    tail = RecordFile(path)
    assert tail.new() == []
    with Recorder(path) as recorder:
        recorder.write(step(0))
        assert [one.step for one in tail.new()] == [0]
        whole = path.read_bytes()
        path.open("ab").write(whole[:30])
        assert tail.new() == []
        path.open("ab").write(whole[30:])
        recorder.write(step(2))
    assert [one.step for one in tail.new()] == [0, 2]
    assert tail.new() == []


WRITER = """
import sys
from pathlib import Path
from llmperf.runfolder.reader import Recorder
from llmperf.types import StepRecord
with Recorder(Path(sys.argv[1])) as recorder:
    known = {"rank": 0, "measured": True, "at": 1.0, "monotonic": 1.0, "step_seconds": 0.5, "tokens": 4, "loss": 1.0}
    for step in range(10**9):
        recorder.write(StepRecord(step=step, **known))
"""


def test_every_whole_line_of_a_writer_that_is_killed_is_read(tmp_path):
    path = tmp_path / "r.jsonl"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
    while not path.exists() or path.stat().st_size < 10**6:
        assert writer.poll() is None
    writer.kill()
    writer.wait()
    # the kernel may cut the write that a kill interrupts, at the end of a page
    assert [one.step for one in RecordFile(path).new()] == list(range(path.read_bytes().count(b"\n")))


@contextmanager
def small_files():
    """No file may grow beyond 1000 bytes: the write that would is cut short, as on a full disk.

    Within a test's body only: pytest's own output may go to a file.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def write_all(recorder):
    for number in range(100):
        recorder.write(step(number))


def test_a_write_cut_short_is_an_error_and_leaves_no_part_of_a_line(tmp_path):
    path, reserve = tmp_path / "r.jsonl", tmp_path / "reserve"
    reserve.write_bytes(bytes(100))
    with Recorder(path, reserve) as recorder:
        told = r"r\.jsonl: cannot write a record: No space left on device"
        with small_files(), pytest.raises(RunFailed, match=told):
            write_all(recorder)
        assert path.read_bytes().endswith(b"\n")
        assert not reserve.exists()
    assert [one.step for one in RecordFile(path).new()] == list(range(len(RecordFile(path).new())))


def test_a_record_file_that_cannot_be_opened(tmp_path):
    with pytest.raises(RunFailed, match="No such file or directory"):
        Recorder(tmp_path / "none" / "r.jsonl")


def test_packages_are_those_imported_from_outside_the_standard_library():
    packages = loaded_packages()
    assert packages["pytest"] == pytest.__version__
    assert packages["python"].startswith(f"{sys.version_info[0]}.{sys.version_info[1]}.")
    assert "json" not in packages


def sampled(tmp_path, query):
    """A sampler that was stopped after three readings, or ended after too many failures; and what it wrote."""
    path = tmp_path / "memory.jsonl"
    sampler = Sampler(path, query, (0, 1), interval=0.02)
    sampler.start()
    while sampler._thread.is_alive() and not (path.exists() and len(RecordFile(path).new()) >= 3):
        time.sleep(0.01)
    sampler.stop(wait_seconds=60)
    return sampler, RecordFile(path).new()


def test_the_sampler_writes_what_the_vendor_says_and_what_it_cost(tmp_path):
    def query(devices):
        time.sleep(0.01)
        return tuple(DeviceSample(index=i, memory_used_bytes=7, memory_total_bytes=9) for i in devices)

    began = time.monotonic()
    sampler, samples = sampled(tmp_path, query)
    assert sampler.problem is None
    assert len(samples) >= 3
    assert [device.index for device in samples[0].devices] == [0, 1]
    assert 0.01 <= samples[0].query_seconds < time.monotonic() - began


def test_a_vendor_that_raises_is_noted_and_asked_no_more(tmp_path):
    asked = []

    def query(devices):
        asked.append(devices)
        raise OSError("the driver is gone")

    sampler, samples = sampled(tmp_path, query)
    assert sampler.problem == "reading the devices failed: OSError: the driver is gone"
    assert samples == []
    assert len(asked) == 5


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([1, None], "TypeError: llmperf_query_memory: expected a DeviceSample, found int"),
        (
            [DeviceSample(index=0, memory_used_bytes=float("nan"), memory_total_bytes=9)],
            "ValueError: llmperf_query_memory: memory_used_bytes: expected a finite number of at least 0, found nan",
        ),
        (
            [DeviceSample(index=0, memory_used_bytes=7, memory_total_bytes=-3)],
            "ValueError: llmperf_query_memory: memory_total_bytes: expected a finite number of at least 0, found -3",
        ),
        ([DeviceSample(index=0, memory_used_bytes=7, memory_total_bytes=9, power_watts="x")], "ValidationError: "),
    ],
)
def test_a_reading_that_could_not_be_read_back_is_noted_not_written(tmp_path, given, told):
    sampler, samples = sampled(tmp_path, lambda devices: given)
    assert sampler.problem.startswith(f"reading the devices failed: {told}")
    assert samples == []


def test_a_reading_that_never_returns_does_not_hold_up_the_end(tmp_path):
    from threading import Event

    asked, release = Event(), Event()

    def query(devices):
        asked.set()
        release.wait(100)
        return ()

    sampler = Sampler(tmp_path / "memory.jsonl", query, (0,), interval=0.01)
    sampler.start()
    asked.wait(100)
    sampler.stop(wait_seconds=0.1)
    release.set()
    assert sampler.problem == "the last reading of the devices did not return"


def test_a_sampler_that_cannot_write_is_noted(tmp_path):
    sampler = Sampler(tmp_path / os.devnull.strip("/") / "x", lambda devices: (), (0,), interval=0.01)
    sampler.start()
    sampler.stop()
    assert "No such file" in sampler.problem


def test_a_pipe_or_device_is_not_replaced_by_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for check in (writable, lambda path: write_bytes(path, b"{}")):
        with pytest.raises(UserError, match=r"pipe: cannot write: expected a regular file, found something else"):
            check(pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_file_in_no_folder_is_refused_before_anything_is_measured(tmp_path):
    with pytest.raises(UserError, match="no folder"):
        writable(tmp_path / "absent" / "rates.json")
