"""Repeats of a run, series, and runs of a series whose llmperf was killed."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from llmperf.files import json_files
from llmperf.planning.build import plan_run
from llmperf.planning.ready import ready
from llmperf.planning.states import Request, Selection, Site
from llmperf.plugins.loading import load_for
from llmperf.running import launched
from llmperf.running.launched import run_plan
from llmperf.running.measure import Series, measure
from llmperf.types import PeakFlops, Result, RunChoice
from llmperf.validation.catalogue import Catalogue
from llmperf.validation.check import findings
from llmperf.validation.run_folder import run_folder_findings

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
        return SimpleNamespace(status="complete")

    monkeypatch.setattr("llmperf.running.measure.run_plan", start)
    monkeypatch.setattr("llmperf.running.measure.recorded_findings", lambda _: ())
    monkeypatch.setattr("llmperf.running.measure.check", lambda result, *_: result)
    return started


def repeated(tmp_path, repeat, wait=None):
    planned = ready(plan_run(Selection("default"), Site(vendor="cpu", devices=1)))
    list(measure(planned, tmp_path, repeat, print, ready=wait))


def test_repeats_on_a_busy_host_have_no_peak_and_do_not_time_it_again(tmp_path, answers, plans):
    answers += [BUSY, 1e11]
    repeated(tmp_path, 3)
    assert [plan.peak_problem for plan in plans] == [BUSY] * 3
    assert answers == [1e11]  # asked once


def test_a_peak_is_timed_once_more_after_waiting_for_an_idle_host(tmp_path, answers, plans):
    answers += [BUSY, 1e11, 2e11]
    repeated(tmp_path, 3, wait=lambda planned: None)
    assert [plan.peak.flops_per_second for plan in plans] == [1e11] * 3


def test_runs_of_a_series_do_not_ask_again_for_a_peak_that_was_refused(answers):
    answers += [BUSY, 1e11]
    request = Request(Selection("default"), Site(vendor="cpu", devices=1))
    runs = Series(request, print)
    choice = RunChoice(case="default", devices=1)
    assert [runs.prepare(choice).peak_problem for _ in range(3)] == [BUSY] * 3
    assert answers == [1e11]


def test_a_known_peak_is_not_asked_for_again(tmp_path, answers, plans):
    answers += [1e11, 2e11]
    repeated(tmp_path, 2)
    assert [plan.peak.flops_per_second for plan in plans] == [1e11, 1e11]


@pytest.mark.slow
def test_a_run_that_ended_counts_although_its_controller_was_killed_before_the_result(stub_plan, tmp_path):
    folder, warnings = tmp_path / "run", []
    runs = Series(Request(Selection("default")), warnings.append)
    assert runs.recover(folder) is None, "killed before the folder was made"
    result = run_plan(stub_plan(ranks=1), folder, load_for("stub", "stub"), sample_seconds=0.05)
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
    published = run_plan(plan, tmp_path / "published", plugins)
    assert published.peak_again is None
    peak = replace(plan.peak, confidence="measured", flops_per_second=1e12)
    lowered = run_plan(replace(plan, peak=peak), tmp_path / "lowered", plugins)
    assert lowered.peak_again.flops_per_second == 2e12
    assert run_folder_findings(lowered, tmp_path / "lowered") == []
    assert {mfu.peak_flops_per_second for mfu in lowered.mfu} == {2e12 * plan.device_share}
    assert "LP658" not in {finding.code for finding in findings("result", lowered, Catalogue(plugins))}
    edited = replace(lowered, mfu=tuple(replace(mfu, peak_flops_per_second=1e11) for mfu in lowered.mfu))
    assert [finding.code for finding in findings("result", edited, Catalogue(plugins))].count("LP658") == 1
    peak = replace(peak, flops_per_second=2.1e12)
    larger = run_plan(replace(plan, peak=peak), tmp_path / "larger", plugins)
    assert {mfu.peak_flops_per_second for mfu in larger.mfu} == {2.1e12 * plan.device_share}
