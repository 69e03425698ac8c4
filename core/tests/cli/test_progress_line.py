"""The live line: what it says, rewritten in place on a terminal, rare elsewhere."""

import os
import pty
import subprocess
import sys
from types import SimpleNamespace

import pytest
from llmperf.cli import progress_line
from llmperf.cli.progress_line import Place, progress_text
from llmperf.reporting.cells import duration
from llmperf.reporting.text_table import sparkline
from llmperf.types import Progress

PROGRAM = """
from llmperf.cli.progress_line import ProgressLine
from llmperf.types import Progress
line = ProgressLine()
for step in (3, 4):
    line.progress(Progress(phase="measuring", step=step, steps=9, loss=8.1, tokens_per_second_per_device=1234.5,
                           mfu=0.25, memory_used_bytes=2**30, seconds_left=75.0))
line.ended(None, None)
print("done")
"""


def progress(**known) -> Progress:
    nothing = {"loss": None, "tokens_per_second_per_device": None, "mfu": None, "memory_used_bytes": None}
    return Progress(**{"phase": "measuring", "step": 3, "steps": 9, "seconds_left": None, **nothing, **known})


@pytest.mark.parametrize(
    ("width", "told"),
    [
        (None, "measuring  step 3/9  loss 8.1235  1,234 token/p/s  MFU 25.0 %  mem 1.00 GiB  42 s left"),
        (90, "measuring  step 3/9  loss 8.1235  1,234 token/p/s  MFU 25.0 %  mem 1.00 GiB  42 s left"),
        (79, "measuring 3/9 loss 8.1235 1,234 token/p/s MFU 25.0 % mem 1.00 GiB 42 s left"),
        (74, "measuring 3/9 loss 8.1235 1,234 token/p/s MFU 25.0 % 42 s left"),
        (60, "measuring 3/9 loss 8.1235 1,234 token/p/s 42 s left"),
        (30, "measuring 3/9 42 s left"),
        (9, "measuring 3/9 42 s left"),
    ],
)
def test_a_narrow_terminal_shows_what_matters_most(width, told):
    known = {"loss": 8.12345, "tokens_per_second_per_device": 1234.5, "mfu": 0.25, "memory_used_bytes": 2**30}
    assert progress_text(progress(**known, seconds_left=42.0), width) == told


def test_what_is_unknown_is_left_out():
    assert progress_text(progress()) == "measuring  step 3/9"


@pytest.mark.parametrize(("seconds", "told"), [(0.2, "0 s"), (59.4, "59 s"), (190, "3 min 10 s"), (7500, "2 h 5 min")])
def test_durations(seconds, told):
    assert duration(seconds) == told


def test_a_terminal_has_one_line_rewritten_and_cleared():
    leader, follower = pty.openpty()
    child = subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=follower, stdout=subprocess.PIPE, text=True)
    out, _ = child.communicate(timeout=100)
    os.close(follower)
    shown = os.read(leader, 10_000).decode()
    os.close(leader)
    assert out == "done\n"
    assert "\n" not in shown
    assert [part.split(" loss")[0] for part in shown.split("\r") if part.strip()] == ["measuring 3/9", "measuring 4/9"]
    assert shown.count("1 min 15 s left") == 2
    assert shown.endswith(" \r")


def test_without_standard_error_nothing_is_shown():
    closed = [f"{sys.executable} -c '{PROGRAM}' 2>&-"]
    done = subprocess.run(["sh", "-c", *closed], stdout=subprocess.PIPE, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "done\n")


@pytest.mark.parametrize(("begun", "lines"), [("", 0), ("line._last_time -= 301\n", 1)])
def test_elsewhere_there_is_a_line_every_five_minutes(begun, lines):
    program = PROGRAM.replace("for step", f"{begun}for step")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert (done.stderr.count("\n"), "\r" in done.stderr) == (lines, False)


def test_the_line_shows_the_time_of_the_last_steps_and_which_run_of_several_it_is(monkeypatch):
    monkeypatch.setattr(progress_line, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    known = {"tokens_per_second_per_device": 1234.5, "mfu": 0.25, "memory_used_bytes": 2**30, "seconds_left": 42.0}
    place = Place(number=3, runs=12, ends_at=1600.4)
    line = progress_text(progress(**known), None, place, "▁▁█▁")
    assert line.startswith("run 3 of 12  measuring  step 3/9  1,234 token/p/s  step time ▁▁█▁  MFU 25.0 %")
    assert line.endswith("42 s left  10 min 0 s for all")
    late = Place(number=3, runs=12, ends_at=999.0)
    assert "for all" not in progress_text(progress(**known), None, late)
    narrow = progress_text(progress(**known), 70, place, "▁▁█▁")
    assert narrow == "run 3 of 12 measuring 3/9 1,234 token/p/s 42 s left 10 min 0 s for all"


@pytest.mark.parametrize(
    ("values", "encoding", "chart"),
    [
        ([1.0, 1.0, 2.0], "utf-8", "▁▁█"),
        ([1.0, 1.0001], "utf-8", "▄▅"),
        ([1.0, 1.0, 2.0], "ascii", "__#"),
        ([1.0], "utf-8", ""),
        ([0.0, 0.0], "utf-8", "▁▁"),
    ],
)
def test_a_sparkline_has_a_level_for_each_value_and_does_not_enlarge_noise(values, encoding, chart):
    assert sparkline(values, encoding=encoding) == chart
