"""Observers follow a run; those that fail or block are dropped, and the run goes on."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import llmperf
import pytest
from llmperf.cli.main import call
from llmperf.errors import PluginError
from llmperf.plugins.discovery import Found
from llmperf.plugins.loading import Plugins, load_for
from llmperf.running import observers as observing
from llmperf.running.launched import run_plan, save_result
from llmperf.running.observers import Observers
from llmperf.types import Progress, StepProgress


class Recording:
    """Records the calls that it gets."""

    def __init__(self, name="recording"):
        self.name = name
        self.calls = []

    def started(self, plan, folder):
        self.calls.append(("started", plan, folder))

    def progress(self, progress):
        self.calls.append(("progress", progress))

    def steps(self, steps):
        self.calls.append(("steps", steps))

    def ended(self, result, folder):
        self.calls.append(("ended", result, folder))

    def of(self, kind):
        return [call for call in self.calls if call[0] == kind]


def register(plugins, *given):
    for observer in given:
        plugin = SimpleNamespace(llmperf_observers=llmperf.hookimpl(lambda observer=observer: [observer]))
        found = Found(observer.name, "extension", observer.name, "llmperf-tracking", "1.0")
        plugins.register(plugin, found)
    return plugins


def progress(step):
    return Progress(
        phase="measuring", step=step, steps=9, loss=None, tokens_per_second_per_device=None, mfu=None,
        memory_used_bytes=None, seconds_left=None,
    )  # fmt: skip


def finished(number):
    return StepProgress(step=number, measured=True, loss=1.0, step_seconds=0.1, tokens_per_second_per_device=10.0)


@pytest.mark.slow
def test_each_step_comes_once_and_at_most_once_a_second(tmp_path):
    recording = Recording()
    observers = Observers(register(Plugins(), recording), pytest.fail)
    observers.started("plan", tmp_path)
    begin = time.monotonic()
    for number in range(1, 13):
        observers.observe(progress(number), (finished(number),))
        time.sleep(0.1)
    seconds = time.monotonic() - begin
    observers.ended("result", tmp_path)
    assert recording.calls[0] == ("started", "plan", tmp_path)
    assert recording.calls[-1] == ("ended", "result", tmp_path)
    assert [step.step for _, steps in recording.of("steps") for step in steps] == list(range(1, 13))
    assert len(recording.of("steps")) <= seconds + 2  # the first at once, the last with the end
    assert recording.of("progress")[-1] == ("progress", progress(12))


@pytest.mark.parametrize(
    ("error", "shown"), [(ValueError("no disk"), "ValueError: no disk"), (SystemExit(3), "SystemExit: 3")]
)
@pytest.mark.parametrize("method", ["started", "progress", "steps", "ended"])
def test_an_observer_that_raises_is_dropped_with_one_warning(tmp_path, error, shown, method):
    def fail(*_):
        raise error

    broken, recording, warnings = Recording("broken"), Recording(), []
    setattr(broken, method, fail)
    observers = Observers(register(Plugins(), broken, recording), warnings.append)
    observers.started("plan", tmp_path)
    for number in range(1, 4):
        observers.observe(progress(number), (finished(number),))
        time.sleep(0.02)
    observers.ended("result", tmp_path)
    (warning,) = warnings
    assert warning.startswith(
        "observer 'broken' of extension 'broken' (llmperf-tracking) is dropped, the run goes on: llmperf_observers:"
        f" {method} raised {shown}"
    )
    assert warning.count("llmperf-tracking") == 1
    assert "(test_observers.py, line " in warning
    assert recording.of("ended") == [("ended", "result", tmp_path)]


@pytest.mark.slow
def test_an_observer_that_blocks_is_dropped_and_delays_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(observing, "LIMIT_SECONDS", 0.3)
    release = threading.Event()
    blocking, recording, warnings = Recording("blocking"), Recording(), []
    blocking.progress = lambda _: release.wait(250)
    observers = Observers(register(Plugins(), blocking, recording), warnings.append)
    for thread in observers._threads:
        if "blocking" not in thread.label:
            thread._limit_seconds = 250.0  # a busy machine may take longer than the others' calls
    begin = time.monotonic()
    observers.started("plan", tmp_path)
    for number in range(1, 6):
        observers.observe(progress(number), (finished(number),))
        time.sleep(0.1)
    observers.ended("result", tmp_path)
    assert time.monotonic() - begin < 200
    release.set()
    (warning,) = warnings
    assert warning.endswith("is dropped, the run goes on: progress did not return within 0.3 s")
    assert recording.of("ended")


def test_what_is_no_observer_is_refused_in_one_line():
    partial = SimpleNamespace(name="partial", started=print, ended=print)
    message = (
        r"extension 'partial' \(llmperf-tracking\): llmperf_observers: expected an Observer, found .* progress, steps"
    )
    with pytest.raises(PluginError, match=message):
        Observers(register(Plugins(), partial), print)


def test_the_core_shows_nothing_without_standard_error(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    observers = Observers(Plugins(), pytest.fail)
    observers.started("plan", tmp_path)
    observers.observe(progress(1), ())
    observers.ended(None, tmp_path)


@pytest.mark.slow
def test_an_observer_gets_each_step_of_a_run_and_is_called_no_more_often_if_it_starts_processes(
    stub_plan, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("llmperf.cli.progress_line.SECONDS_BETWEEN_LINES", 0)

    class Starting(Recording):
        def progress(self, progress):
            super().progress(progress)
            subprocess.run(["true"], check=True)

    observer = Starting("starting")
    plugins = register(load_for("stub", "stub"), observer)
    observers = Observers(plugins, pytest.fail)
    begin = time.monotonic()
    run_plan(stub_plan(steps=12, warmup_steps=2), tmp_path / "run", plugins, save_result, observers)
    seconds = time.monotonic() - begin
    observers.ended(None, tmp_path / "run")
    assert len(observer.of("progress")) <= seconds / 0.18 + 3
    steps = [step for _, part in observer.of("steps") for step in part]
    assert [step.step for step in steps] == list(range(1, 13))
    assert [step.loss for step in steps] == [pytest.approx(10 / step) for step in range(1, 13)]
    assert [step.measured for step in steps] == [False] * 2 + [True] * 10
    assert "step 12/12" in capsys.readouterr().err  # the core's own observer, through the same hook


RULE = """
import llmperf
from llmperf.types import Rule

def check(result):
    from pathlib import Path
    print("applied")
    saved = sorted(path.name for path in Path("runs").glob("*/re*.*"))
    assert saved == ["report.md", "result.json"], saved
    yield "/hardware/driver", "no driver"

@llmperf.hookimpl
def llmperf_rules():
    yield Rule(code="ODD1", severity="warning", title="A driver", check=check)
"""


@pytest.mark.slow
def test_figures_are_saved_and_printed_before_rules_of_plugins(stub_run, install, capfd):
    install("llmperf-odd", "odd", RULE, role="extension")
    assert call(stub_run) == 0
    shown = capfd.readouterr().out
    assert "LP901" not in shown
    assert 0 < shown.index("token/p/s") < shown.index("run folder: ") < shown.index("ODD1 warning /hardware/driver")
    (saved,) = Path("runs").glob("*/result.json")
    assert "ODD1" in [finding["code"] for finding in json.loads(saved.read_text())["findings"]]
    assert "ODD1" in saved.with_name("report.md").read_text()
