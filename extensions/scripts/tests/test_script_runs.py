"""Runs of an external script (a stand-in) through the real agent, rank and controller: what a user finds after."""

import platform
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from llmperf.plugins.loading import load_for
from llmperf.runfolder import filenames
from llmperf.runfolder.reader import RecordFile
from llmperf.running.launched import run_plan, save_result
from llmperf.types import Interpreter, PhaseRecord, Script, StepRecord
from llmperf.validation.catalogue import Catalogue
from llmperf.validation.check import findings
from llmperf.validation.run_folder import run_folder_findings

STAND_IN = Path(__file__).parent / "script.py"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="process groups as Linux has them")]


@pytest.fixture
def run_script(stub_plan, tmp_path, monkeypatch):
    """Run the stand-in on two ranks: plan, result and its folder."""

    def run(*arguments, steps=8, told=None, **options):
        plan = stub_plan(steps=steps, **{"warmup_steps": 2, **options})
        script = (sys.executable, str(STAND_IN), str(told or steps), *arguments)
        monkeypatch.setenv("SCRIPT_TOKENS", str(plan.batch.tokens_per_step))
        plan = with_script(plan, *script)
        return plan, run_plan(plan, tmp_path / "run", load_for("stub", "stub"), save_result), tmp_path / "run"

    return run


def with_script(plan, *command):
    """A plan whose ranks run a command, as it is planned with this package."""
    worker = replace(plan.worker, script=Script(command=command, step_rank=1), notes=("a note of the framework",))
    return replace(plan, worker=worker, recorders=("scripts",), plugins=load_for("stub", "stub").infos())


def left_of(plan):
    """Ids of processes of a run that still live."""
    mark = f"LLMPERF_RUN_ID={plan.run_id}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found += [entry.name] if mark in (entry / "environ").read_bytes() else []
    return found


def steps_of(run, rank):
    return [one for one in RecordFile(filenames.records_path(run, rank)).new() if isinstance(one, StepRecord)]


def phases_of(run, rank):
    return [one.phase for one in RecordFile(filenames.records_path(run, rank)).new() if isinstance(one, PhaseRecord)]


PHASES = ["starting", "loading", "building", "warming up", "measuring", "evaluating", "done"]


def test_a_run_is_complete_and_counted_by_the_core(run_script):
    began = time.monotonic()
    plan, result, run = run_script()
    seconds = time.monotonic() - began
    assert (result.status, result.failure) == ("complete", None)
    assert run_folder_findings(result, run) == []
    assert result.metrics.measured_steps == 6
    assert result.metrics.measured_tokens == 6 * plan.batch.tokens_per_step
    assert 6 * 0.02 <= result.metrics.window_seconds < seconds
    assert result.metrics.step_seconds.median == 0.02
    assert [round(point.loss, 4) for point in result.loss_curve[:3]] == [10.0, 5.0, 3.3333]
    assert [one.peak_bytes for one in result.metrics.rank_memory] == [2000, 2001]
    assert result.software.packages == {"script": "1.5"}
    assert phases_of(run, 0) == phases_of(run, 1) == PHASES
    assert [one.tokens for one in steps_of(run, 0)] == [0] * 8
    assert [one.tokens for one in steps_of(run, 1)] == [plan.batch.tokens_per_step] * 8
    assert "rank 0 begins" in filenames.log_path(run, 0).read_text()
    assert result.notes[0] == "a note of the framework"
    assert "by llmperf's clock" in result.notes[1]


def test_without_a_warm_up_the_window_begins_with_the_first_step(run_script):
    _, result, run = run_script(warmup_steps=0)
    assert result.status == "complete"
    assert result.metrics.measured_steps == 8
    assert result.metrics.window_seconds >= 8 * 0.02
    assert "warming up" not in phases_of(run, 1)


def test_a_script_whose_clock_is_wrong_is_told_of(run_script):
    _, result, _ = run_script("lies")
    assert result.status == "complete"
    assert result.metrics.window_seconds < 50
    assert any("step times sum to 54 s" in note for note in result.notes)
    assert "LP206" in [one.code for one in findings("result", result, Catalogue(load_for("stub", "stub")))]


@pytest.mark.parametrize("oddity", ["odd", "child", "torn"])
def test_odd_output_spoils_nothing(run_script, oddity):
    plan, result, run = run_script(oddity)
    assert (result.status, result.failure) == ("complete", None)
    assert [one.step for one in steps_of(run, 1)] == list(range(1, 9))
    assert left_of(plan) == []
    if oddity == "torn":
        assert filenames.log_path(run, 1).read_text().endswith("no newline at the end")


def test_a_script_without_step_times_is_timed_by_its_lines(run_script):
    _, result, run = run_script("untimed")
    assert (result.status, result.failure) == ("complete", None)
    assert run_folder_findings(result, run) == []
    measured = [step.step_seconds for step in steps_of(run, 1) if step.measured]
    assert sum(measured) == pytest.approx(result.metrics.window_seconds)
    assert min(measured) > 0.01
    assert "it printed no step times: these are the times between its lines" in result.notes[1]


def test_other_tokens_than_the_plans_fail_at_the_first_step_that_shows_them(run_script):
    plan, result, run = run_script("fewer tokens")
    assert (result.status, result.failure.reason) == ("failed", "exception")
    planned = plan.batch.tokens_per_step
    assert f"tokens of step 1: expected {planned} (global batch" in result.failure.message
    assert f"the script trained {planned - 1}" in result.failure.message
    assert steps_of(run, 1) == []


@pytest.mark.parametrize(
    ("fault", "reason", "rank", "message"),
    [
        ("raises", "exited", 1, "ended with status 1"),
        ("tells", "exception", 1, "told before the end"),
        ("killed", "killed", 0, "SIGKILL"),
        ("nan", "nonfinite loss", 1, "the loss of step 4 is nan"),
        ("ends", "exception", 1, "(llmperf-stub): the script of rank 1 ended with status 0 while measuring, after 3"),
        ("silent", "exception", 1, "(llmperf-stub): llmperf_parse_log found no step in the 11 lines of rank 1"),
        ("wordy", "exception", 1, "llmperf_parse_log raised ValueError: could not convert string to float: 'soon' (fr"),
    ],
)
def test_a_failure_is_named(run_script, fault, reason, rank, message):
    _, result, _ = run_script(fault)
    assert (result.status, result.failure.reason, result.failure.rank) == ("failed", reason, rank)
    assert message in result.failure.message
    if fault == "raises":
        assert "no more of this" in " ".join(result.failure.log_tail)


@pytest.mark.parametrize(
    ("fault", "when"),
    [("leaves early", "building, after 0 of 8 steps"), ("leaves", "measuring, after 3 of 8 steps")],
)
def test_a_script_that_leaves_its_peers_is_named(run_script, fault, when):
    began = time.monotonic()
    plan, result, _ = run_script(fault, stall_seconds=600.0, startup_seconds=600.0)
    assert time.monotonic() - began < 250
    assert (result.status, result.failure.reason, result.failure.rank) == ("failed", "exception", 0)
    script = "framework 'stub' (llmperf-stub): the script of rank 0"
    assert result.failure.message == f"{script} ended with status 0 while {when}"
    assert left_of(plan) == []


def test_lines_that_come_in_blocks_do_not_pass_for_speed(run_script):
    _, result, _ = run_script("in blocks", steps=30)
    assert (result.status, result.failure.reason, result.failure.rank) == ("failed", "exception", 1)
    assert "measured steps arrived together with the step before" in result.failure.message
    assert "flush each line as it is printed" in result.failure.message
    assert result.metrics.tokens_per_second_per_device is None


def test_steps_of_a_few_milliseconds_are_measured(run_script, monkeypatch):
    monkeypatch.setenv("SCRIPT_SECONDS", "0.002")
    _, result, _ = run_script(steps=200)
    assert (result.status, result.failure) == ("complete", None)


def test_a_scripts_command_may_name_the_python_of_the_ranks_and_its_node(stub_plan, tmp_path):
    environment, here = tmp_path / "environment", Path(sys.prefix)
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    (environment / "lib").symlink_to(here / "lib")
    (environment / "pyvenv.cfg").write_bytes((here / "pyvenv.cfg").read_bytes())
    program = "import sys; print(*sys.argv, sys.executable); [print('did', n, 0.0, 1.0, flush=True) for n in (1, 2)]"
    plan = with_script(stub_plan(steps=2), "{python}", "-c", program, "of node {node_rank}:")
    path = str(environment / "bin" / "python")
    plan = replace(plan, interpreter=Interpreter(path=path, version=platform.python_version()))
    run_plan(plan, tmp_path / "run", load_for("stub", "stub"), save_result)
    assert f"of node 0: {path}" in filenames.log_path(tmp_path / "run", 1).read_text()


@pytest.mark.parametrize("fault", ["hangs", "deaf"])
def test_a_hang_is_seen_and_the_scripts_stacks_are_in_the_log(run_script, fault):
    plan, result, run = run_script(fault, stall_seconds=4.0)
    assert result.failure.reason == "hung"
    assert left_of(plan) == []
    shown = "in meet" in filenames.log_path(run, 1).read_text()
    assert shown == (fault == "hangs")


def test_a_script_that_is_not_there_is_named(stub_plan, tmp_path):
    plan = with_script(stub_plan(), "/no/such/program")
    result = run_plan(plan, tmp_path / "run", load_for("stub", "stub"), save_result)
    assert result.status == "failed"
    assert "cannot start /no/such/program" in result.failure.message
