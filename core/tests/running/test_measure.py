"""Repeats of a run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from llmperf.planning.build import plan_run
from llmperf.planning.ready import ready
from llmperf.planning.states import Request, Selection, Site
from llmperf.running.measure import Series, measure
from llmperf.types import PeakFlops, RunChoice

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

    def run_plan(plan, *_, **__):
        started.append(plan)
        return SimpleNamespace(status="complete")

    monkeypatch.setattr("llmperf.running.measure.run_plan", run_plan)
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
