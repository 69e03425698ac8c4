"""Many runs in one process: no process, descriptor, thread, memory or file is left behind."""

import gc
import os
import shutil
import tempfile
import threading
from pathlib import Path

import pytest
from llmperf.cli.main import call

RUNS = int(os.environ.get("LLMPERF_ENDURANCE_RUNS", "1000"))
FIRST = 20
"""Runs after which what is loaded once has been loaded."""
GROWTH_BYTES = 30 * 2**20


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def children():
    return Path("/proc/self/task", str(os.getpid()), "children").read_text().split()


def left_behind():
    """What may not grow: descriptors, threads, children, files in the temporary folder."""
    gc.collect()
    files = len(os.listdir(tempfile.gettempdir()))
    return [len(os.listdir("/proc/self/fd")), threading.active_count(), len(children()), files]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_runs_leave_nothing_behind(stub_run, tmp_path, monkeypatch, capsys):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    for number in range(1, RUNS + 1):
        assert call([*stub_run, "--set", "framework.step_seconds=0.001"]) == 0, capsys.readouterr().err
        assert len(list((tmp_path / "runs").iterdir())) == 1
        shutil.rmtree(tmp_path / "runs")
        capsys.readouterr()
        if number == FIRST:
            before, memory = left_behind(), resident_bytes()
    assert left_behind() == before
    assert resident_bytes() - memory < GROWTH_BYTES
