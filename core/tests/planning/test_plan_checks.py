"""Plugins check a planned run: their problems refuse it, their notes and expectations are in the plan."""

from types import SimpleNamespace

import pytest
from llmperf import hookimpl
from llmperf.planning import build
from llmperf.planning.build import plan_only
from llmperf.planning.ready import ready
from llmperf.planning.states import RunOptions, Selection, Site
from llmperf.plugins.discovery import Found, find
from llmperf.plugins.loading import Plugins
from llmperf.types import PlanCheck, Problem, TracedMemory

PROBLEM = Problem(code="acme.cold", where="tuning.devices", message="expected a warm device")
MEMORY = TracedMemory(peak_bytes=8, at_peak={"parameters": 8}, phase="update", operation="adamw", between_steps={})


@pytest.fixture
def planned(monkeypatch):
    """A function that plans with an extension which gives these answers alone."""
    given = list()

    @hookimpl
    def llmperf_plan_checks(plan):
        return (answer() if callable(answer) else answer for answer in given)

    def load_for(vendor, framework):
        plugins = Plugins([find("vendor", vendor), find("framework", framework)])
        acme = Found("acme", "extension", "llmperf_acme", "llmperf-acme", "1.0")
        plugins.register(SimpleNamespace(llmperf_plan_checks=llmperf_plan_checks), acme)
        return plugins

    def plan(*answers, settings=(), preflight=True):
        given[:] = answers
        site, options = Site(on="A100-SXM4-40GB:1x1"), RunOptions(preflight=preflight)
        return ready(plan_only(Selection("default", settings=settings), site, options))

    monkeypatch.setattr(build, "load_for", load_for)
    return plan


def test_problems_refuse_the_run_unless_the_user_says_otherwise(planned):
    assert planned(PlanCheck(problems=(PROBLEM,))).problems == (PROBLEM,)
    assert planned(PlanCheck(problems=(PROBLEM,), notes=("cold",)), preflight=False).plan.notes == ("cold",)


def test_notes_and_the_first_expectation_of_each_figure_are_in_the_plan(planned):
    first, second = PlanCheck(notes=("a", "b\nc"), step_seconds=2.0, step_basis="weighed"), PlanCheck(step_seconds=3.0)
    plan = planned(first, second, PlanCheck(memory=(MEMORY,))).plan
    assert (plan.notes, plan.memory) == (("a", "b c"), (MEMORY,))
    assert (plan.expected_step_seconds, plan.expected_step_basis) == (2.0, "weighed")


def test_without_checks_nothing_is_expected_and_states_that_cannot_fit_are_still_refused(planned):
    plan = planned().plan
    assert (plan.memory, plan.expected_step_seconds, plan.slow_step_seconds) == ((), None, None)
    refused = planned(settings=("model=llama2_70b",))
    assert "memory_too_small" in {problem.code for problem in refused.problems}


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("yes", "expected a PlanCheck of llmperf_plan_checks, found str"),
        (PlanCheck(step_seconds=float("nan")), "step_seconds: expected a finite number above 0, found nan"),
        (PlanCheck(memory=(MEMORY, MEMORY)), "memory: expected that of 1 pipeline stages, found 2"),
        (lambda: [][0], "IndexError"),
    ],
)
def test_a_faulty_answer_is_left_out_with_a_note(planned, answer, fault):
    (note,) = planned(answer).plan.notes
    assert note.startswith("left out: extension 'acme' (llmperf-acme)")
    assert "llmperf_plan_checks" in note
    assert fault in note
