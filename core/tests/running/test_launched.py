"""Whole runs of the stub framework: what a user finds afterwards."""

import json
import resource
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import llmperf_schemas
import pytest
from llmperf.files import json_files
from llmperf.launching import run_here
from llmperf.planning.build import plan_run
from llmperf.planning.ready import ready
from llmperf.planning.states import Request, Selection, Site
from llmperf.plugins.loading import load_for
from llmperf.runfolder import filenames
from llmperf.running import launched
from llmperf.running.launched import run_plan, save_result
from llmperf.running.measure import Series, measure
from llmperf.types import PeakFlops, Result, RunChoice
from llmperf.validation.catalogue import Catalogue
from llmperf.validation.check import findings, validate_path
from llmperf.validation.run_folder import run_folder_findings

CONTROLLER = Path(__file__).parents[1] / "stub" / "run_controller.py"


class Watching:
    """Calls a function with each progress, from the thread of the controller."""

    def __init__(self, watch):
        self.watch = watch

    def started(self, plan, folder):
        pass

    def observe(self, progress, steps):
        self.watch(progress)


@pytest.mark.slow
def test_a_run_leaves_a_complete_result_and_all_its_records(stub_plan, tmp_path):
    plan = stub_plan(steps=25, warmup_steps=3, ranks=2, sampled=True)
    seen = []
    watching = Watching(seen.append)
    result = run_plan(plan, tmp_path / "run", load_for("stub", "stub"), save_result, watching, sample_seconds=0.05)
    run = tmp_path / "run"
    assert result.failure is None
    assert result.status == "complete"
    assert json_files.load(run / filenames.RESULT, Result) == result
    assert result.metrics.measured_steps == 22
    assert result.metrics.measured_tokens == 22 * plan.batch.tokens_per_step
    expected = result.metrics.measured_tokens / result.metrics.window_seconds / 2
    assert result.metrics.tokens_per_second_per_device == pytest.approx(expected)
    assert result.metrics.step_seconds.median >= 0.01  # what the trainer sleeps; a busy machine adds to it
    assert [point.loss for point in result.loss_curve[:2]] == [10.0, 5.0]
    assert [(one.peak_bytes, one.reserved_bytes) for one in result.metrics.rank_memory] == [(4096, 8192)] * 2
    assert result.metrics.device_memory_used_bytes == 2**20
    assert result.metrics.power_watts == 50.0
    assert result.metrics.evaluation == {"score": 0.5}
    assert result.mfu[0].value == pytest.approx(expected * 6000 / 0.5e12)
    assert set(result.files) >= {"plan.json", "records/rank-00000.jsonl", "records/rank-00001.jsonl"}
    assert "rank 1: closed" in filenames.log_path(run, 1).read_text()
    assert (run / "files" / "stub.json").read_text() == "{}"
    assert not list(run.glob(".*"))
    assert seen[-1].steps == 25
    kinds = [json.loads(line)["kind"] for line in filenames.records_path(run, 0).read_text().splitlines()]
    assert kinds.count("step") == 25


@pytest.fixture
def stolen_ports(monkeypatch):
    """A function that has the next `count` ports that a controller chooses taken by this process."""
    with ExitStack() as stack:

        def steal(count):
            taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(count)]
            chosen = iter(taken)
            monkeypatch.setattr(run_here, "free_port", lambda: next(chosen, None) or free_port())
            return taken

        free_port = run_here.free_port
        yield steal


@pytest.mark.slow
def test_a_stolen_port_has_the_ranks_started_once_more(stub_plan, tmp_path, stolen_ports):
    (taken,) = stolen_ports(1)
    result = run_plan(stub_plan(listens=True), tmp_path / "run", load_for("stub", "stub"), save_result)
    assert (result.status, result.failure) == ("complete", None)
    assert result.metrics.measured_steps == 10
    (note,) = [note for note in result.notes if "started a second time" in note]
    assert note.startswith("a rank could not listen on its port, which was in use already")
    assert f"in the place of {taken}; logs/first-start" in note
    first = tmp_path / "run" / filenames.LOGS / "first-start"
    assert "Address already in use" in (first / "rank-00000.log").read_text()
    assert run_folder_findings(result, tmp_path / "run") == []


@pytest.mark.slow
def test_a_port_that_is_stolen_twice_fails_the_run(stub_plan, tmp_path, stolen_ports):
    stolen_ports(2)
    result = run_plan(stub_plan(listens=True), tmp_path / "run", load_for("stub", "stub"), save_result)
    assert (result.status, result.failure.rank, result.failure.exception) == ("failed", 0, "OSError")
    assert "Address already in use" in result.failure.message


ADDRESS_SPACE_BYTES = 900 * 2**20
"""Less than the largest file of records that would be read; a run of the stub takes about a third of it."""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space as Linux has them")
def test_a_run_takes_no_memory_for_records_that_are_not_there(stub_plan, tmp_path):
    json_files.save(tmp_path / "plan-in.json", stub_plan())
    done = subprocess.run(
        [sys.executable, str(CONTROLLER), str(tmp_path / "plan-in.json"), str(tmp_path / "run")],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES)),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "complete\n", "")
    assert json_files.load(tmp_path / "run" / filenames.RESULT, Result).status == "complete"


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
def test_a_wall_clock_that_is_set_during_a_run_spoils_nothing(stub_plan, tmp_path, monkeypatch, seconds):
    """On the ranks' side and on the controller's."""
    real, off = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + off[0])

    def watch(progress):
        off[0] = seconds if progress.step >= 5 else off[0]

    options = {"fault_rank": "all", "fault_step": 6, "clock_set": seconds, "step_seconds": 0.05, "sampled": True}
    plan = replace(stub_plan(steps=20, **options), created=datetime.now(timezone.utc).isoformat(timespec="seconds"))
    result = run_plan(
        plan, tmp_path / "run", load_for("stub", "stub"), save_result, Watching(watch), sample_seconds=0.05
    )
    assert (result.status, off) == ("complete", [seconds])
    records = [json.loads(line) for line in filenames.records_path(tmp_path / "run", 0).read_text().splitlines()]
    steps = [one["at"] for one in records if one["kind"] == "step"]
    assert max(abs(after - before) for before, after in pairwise(steps)) > 3000
    assert 18 * 0.05 <= result.metrics.window_seconds < 300
    assert result.metrics.power_watts == 50.0
    found = {one.code for file in validate_path(tmp_path / "run") for one in file.findings}
    assert not found & {"LP207", "LP642", "LP643", "LP646", "LP647"}


def schema_errors(name, document):
    validator = jsonschema.Draft202012Validator(llmperf_schemas.load(name))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "status"), [(None, "complete"), ("raises", "failed"), ("nan", "failed")])
def test_all_documents_of_a_run_are_as_the_schemas_say(stub_plan, tmp_path, fault, status):
    options = {"fault": fault} if fault else {}
    result = run_plan(stub_plan(steps=30, **options), tmp_path / "run", load_for("stub", "stub"), save_result)
    assert result.status == status
    run = tmp_path / "run"
    assert schema_errors("plan", json.loads((run / filenames.PLAN).read_text())) == []
    assert schema_errors("result", json.loads((run / filenames.RESULT).read_text())) == []
    records = [*filenames.record_files(run), run / filenames.MEMORY]
    lines = [line for path in records for line in path.read_text().splitlines()]
    assert {json.loads(line)["kind"] for line in lines} >= {"phase", "step", "memory"}
    assert [error for line in lines for error in schema_errors("record", json.loads(line))] == []


@pytest.mark.slow
def test_a_long_evaluation_that_goes_on_has_not_hung(stub_plan, tmp_path):
    plan = stub_plan(steps=8, evaluation_seconds=8.0, in_step=False)
    plan = replace(plan, startup_seconds=5.0, stall_seconds=5.0, expected_step_seconds=6.0)  # before step 1: 60 s
    result = run_plan(plan, tmp_path / "run", load_for("stub", "stub"), save_result)
    assert (result.status, result.failure) == ("complete", None)
    assert result.metrics.evaluation == {"score": 0.5, "score/part": 0.25}


@pytest.mark.slow
def test_an_evaluation_without_a_number_is_unknown_and_the_run_keeps_its_figures(stub_plan, tmp_path):
    plan = stub_plan(steps=8, fault="evaluates to nan", fault_rank="all")
    result = run_plan(plan, tmp_path / "run", load_for("stub", "stub"), save_result)
    assert result.status == "complete"
    assert result.metrics.evaluation == {"score": None, "other": 0.25}
    assert "the evaluation gave no number for score" in result.notes
    assert result.metrics.tokens_per_second


@pytest.mark.slow
def test_what_native_libraries_do_after_the_end_does_not_spoil_a_run(stub_plan, tmp_path):
    plan = stub_plan(steps=8, fault="aborts while the interpreter ends", fault_rank="all")
    result = run_plan(plan, tmp_path / "run", load_for("stub", "stub"), save_result)
    assert (result.status, result.failure) == ("complete", None)
    assert "rank 1: closed" in filenames.log_path(tmp_path / "run", 1).read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (
            "evaluates to nothing",
            "expected a mapping of names to numbers, empty where there are none, or an iterator of",
        ),
        ("evaluates to words", "expected a number as figure 'score' of evaluate(), found 'good'"),
    ],
)
def test_an_evaluation_without_figures_is_told_in_one_line(stub_plan, tmp_path, fault, told):
    result = run_plan(stub_plan(steps=5, fault=fault), tmp_path / "run", load_for("stub", "stub"), save_result)
    assert (result.status, result.failure.rank) == ("failed", 1)
    assert result.failure.message.startswith(f"the trainer of llmperf_build_trainer: {told}")


@pytest.mark.slow
def test_the_load_of_others_is_known_of_a_short_window(stub_plan, tmp_path):
    """One that lies between two readings: the one after it is made at the end of the run."""
    plan, plugins = stub_plan(steps=6, step_seconds=0.05), load_for("stub", "stub")
    result = run_plan(plan, tmp_path / "run", plugins, save_result, sample_seconds=600.0)
    assert result.metrics.other_cpu_share is not None
    assert result.conditions[0].other_cpu_share is not None


BUSY = "other processes used 60 % of the cores while the peak was timed"


@pytest.fixture
def answers(monkeypatch):
    """The answers of the vendor to each question for its peak, in order; the last one is repeated."""
    given = []

    def peak(plugins, device_model, dtype):
        answer = given.pop(0) if len(given) > 1 else given[0]
        if isinstance(answer, str):
            return answer
        return PeakFlops(
            device_model=device_model, dtype=dtype, flops_per_second=answer, source="timed", date="2026-01-01"
        )

    monkeypatch.setattr("llmperf.plugins.loading.Plugins.peak", peak)
    return given


@pytest.fixture
def plans(monkeypatch):
    """The plans of the runs that were started; no process is."""
    started = []

    def start(plan, *_, **__):
        started.append(plan)
        return SimpleNamespace(status="complete"), []

    monkeypatch.setattr("llmperf.running.measure.run_plan", start)
    monkeypatch.setattr("llmperf.running.measure.check", lambda result, *_: result)
    return started


def repeated(tmp_path, repeat, before=()):
    planned = ready(plan_run(Selection("default"), Site(vendor="cpu", devices=1)))
    list(measure(planned, tmp_path, repeat, print, before=before))


def test_repeats_on_a_busy_host_have_no_peak_and_do_not_time_it_again(tmp_path, answers, plans):
    answers += [BUSY, 1e11]
    repeated(tmp_path, 3)
    assert [plan.peak_problem for plan in plans] == [BUSY] * 3
    assert answers == [1e11]  # asked once


def test_runs_of_a_series_do_not_ask_again_for_a_peak_that_was_refused(answers):
    answers += [BUSY, 1e11]
    request = Request(Selection("default"), Site(vendor="cpu", devices=1))
    runs = Series(request, print)
    choice = RunChoice(case="default", devices=1)
    assert [runs.prepare(choice).peak_problem for _ in range(3)] == [BUSY] * 3
    assert answers == [1e11]


@pytest.mark.parametrize(("busy", "before"), [([], []), ([BUSY], [lambda planned: None])])
def test_a_known_peak_is_not_asked_for_again(tmp_path, answers, plans, busy, before):
    """On a busy host it is timed once more after waiting until the host is idle."""
    answers += [*busy, 1e11, 2e11]
    repeated(tmp_path, 3, before=before)
    assert [plan.peak.flops_per_second for plan in plans] == [1e11] * 3


@pytest.mark.slow
def test_a_run_that_ended_counts_although_its_controller_was_killed_before_the_result(stub_plan, tmp_path):
    folder, warnings = tmp_path / "run", []
    runs = Series(Request(Selection("default")), warnings.append)
    assert runs.recover(folder) is None, "killed before the folder was made"
    result = run_plan(stub_plan(ranks=1), folder, load_for("stub", "stub"), save_result, sample_seconds=0.05)
    (folder / "result.json").unlink()
    recovered = runs.recover(folder)
    assert (recovered.status, recovered.metrics) == (result.status, result.metrics)
    assert json_files.load(folder / "result.json", Result) == recovered
    assert (folder / "report.md").exists()
    (folder / "result.json").unlink()
    (folder / "ending.json").unlink()
    assert runs.recover(folder) is None, "killed while the ranks ran"
    assert warnings == []


@pytest.mark.slow
def test_the_larger_peak_counts(stub_plan, tmp_path, monkeypatch):
    monkeypatch.setenv("LLMPERF_STUB_PEAK", "timed")
    monkeypatch.setattr(launched, "PEAK_AGAIN_SECONDS", 0.0)
    plan, plugins = stub_plan(steps=6, ranks=2), load_for("stub", "stub")
    published = run_plan(plan, tmp_path / "published", plugins, save_result)
    assert published.peak_again is None
    peak = replace(plan.peak, confidence="measured", flops_per_second=1e12)
    lowered = run_plan(replace(plan, peak=peak), tmp_path / "lowered", plugins, save_result)
    assert lowered.peak_again.flops_per_second == 2e12
    assert run_folder_findings(lowered, tmp_path / "lowered") == []
    assert {mfu.peak_flops_per_second for mfu in lowered.mfu} == {2e12 * plan.device_share}
    assert "LP658" not in {finding.code for finding in findings("result", lowered, Catalogue(plugins))}
    edited = replace(lowered, mfu=tuple(replace(mfu, peak_flops_per_second=1e11) for mfu in lowered.mfu))
    assert [finding.code for finding in findings("result", edited, Catalogue(plugins))].count("LP658") == 1
    peak = replace(peak, flops_per_second=2.1e12)
    larger = run_plan(replace(plan, peak=peak), tmp_path / "larger", plugins, save_result)
    assert {mfu.peak_flops_per_second for mfu in larger.mfu} == {2.1e12 * plan.device_share}
