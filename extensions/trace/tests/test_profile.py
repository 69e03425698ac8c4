"""`llmperf profile`: a profile of one rank, labelled, which never becomes a result."""

from dataclasses import replace
from types import SimpleNamespace

import click
import llmperf_schemas
import pytest
from llmperf import rank_records
from llmperf.errors import RunFailed, UserError
from llmperf.files import json_files
from llmperf.planning.states import Planned, RunOptions
from llmperf.plugins.loading import Plugins, load_for
from llmperf.results.run_result import build_result
from llmperf.runfolder.contents import read_run
from llmperf.running.launched import Task, run_plan, save_result
from llmperf.running.measure import startable
from llmperf.types import DeviceRates, ExpectedWork, ProfiledOperation, StepProfile
from llmperf.types.records import ProfileRecord
from llmperf.validation.run_folder import recorded_findings
from llmperf_html.run_curves import recorded_curves
from llmperf_trace.profile import Profile, contradiction, profiled
from llmperf_trace.traced_steps import Steps, prepare, traced


@pytest.fixture
def profile(stub_plan, tmp_path):
    """A function that profiles the stub framework on two ranks."""

    def done(steps=(2, 3), rank=0, trace=True, plugins=None, rates=None, **options):
        plugins = plugins or load_for("stub", "stub")
        made = stub_plan(ranks=2, step_seconds=0.01, **options)
        plan = replace(made, rates=rates, plugins=load_for("stub", "stub").infos())
        planned = SimpleNamespace(
            plan=plan, plugins=plugins, machine=SimpleNamespace(launcher=None), answers=plugins.answers
        )
        return profiled(Task(planned, lambda line: None), tmp_path / "runs", steps, rank, trace)

    return done


@pytest.mark.slow
def test_a_profile_gives_time_by_kind_and_is_no_result(profile, tmp_path, ran):
    document = profile()
    (run,) = (tmp_path / "runs").iterdir()
    assert [(each.kind, each.seconds) for each in document.kinds] == [("matmul", 0.5), ("elementwise", 0.4)]
    assert document.kinds[0].estimated_seconds is None  # the stub vendor has no rates
    assert json_files.load(run / "profile.json", Profile) == document
    assert (run / document.profile.trace).is_file()
    assert not (run / "result.json").exists()
    plan = json_files.load(run / "plan.json", dict)
    assert plan["purpose"] == "profile"
    assert any("no measurement" in note for note in plan["notes"])
    with pytest.raises(UserError, match="not a measured run"):
        build_result(run)
    assert "its plan has purpose 'profile', which has no result" in ran(2, "report", run).err


@pytest.mark.slow
def test_the_gap_to_the_estimate_is_shown_where_rates_are_known(profile, monkeypatch):
    work = ExpectedWork(rank=0, method="analytic", flops=1e12, bytes=1e9, seconds={"matmul": 0.45, "norm": 0.1})
    monkeypatch.setattr("llmperf_trace.profile.expected_work", lambda plan: (work,))
    rates = llmperf_schemas.example("plan")["rates"] | {"basis": "assumed"}
    document = profile(steps=(1,), trace=False, rates=json_files.convert(rates, DeviceRates, "rates"))
    assert (document.rates, document.profile.trace) == ("assumed", None)
    assert [(each.kind, each.seconds, each.estimated_seconds) for each in document.kinds] == [
        ("matmul", 0.5, 0.45),
        ("elementwise", 0.4, 0.0),
        ("norm", 0.0, 0.1),
    ]


@pytest.mark.slow
def test_a_rank_that_fails_under_the_profiler_is_named(profile):
    with pytest.raises(RunFailed, match="rank 1 exception"):
        profile(fault="raises", fault_rank=1, fault_step=2)


def test_a_rank_that_does_not_exist_and_a_framework_without_profiler_are_refused(profile):
    with pytest.raises(UserError, match="--rank: expected at most 1, found 2"):
        profile(rank=2)
    with pytest.raises(UserError, match="stub has no profiler"):
        profile(plugins=Plugins())


PROFILE = StepProfile(
    rank=0,
    steps=3,
    profiler="a clock",
    clock="host",
    step_seconds=1.0,
    operations=(ProfiledOperation(name="aten.mm", kind="matmul", seconds=0.5, calls=2),),
    communication_seconds=0.2,
    overlapped_seconds=0.1,
    idle_seconds=0.1,
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, None),
        ({"communication_seconds": 0.0}, "overlapped_seconds: expected at most 0 s, found 0.1"),
        ({"idle_seconds": 3.0}, "idle_seconds: expected at most 1 s, found 3"),
        ({"step_seconds": 0.4, "communication_seconds": 0.4}, "operation aten.mm: expected at most 0.4 s, found 0.5"),
    ],
)
def test_a_profile_that_contradicts_itself_is_refused(changes, message):
    assert contradiction(replace(PROFILE, **changes)) == message


@pytest.fixture
def traced_run(stub_plan, tmp_path):
    """A function that runs the stub framework on two ranks, with two further steps under its profiler."""

    def done(chosen=(8, 9), **options):
        run, plugins = tmp_path / "run", load_for("stub", "stub")
        plan = replace(stub_plan(ranks=2, steps=6, **options), traced_steps=chosen)
        plan = replace(plan, recorders=("trace",), plugins=plugins.infos())
        return run, run_plan(plan, run, plugins, save_result, None, lambda line: None)

    return done


@pytest.mark.slow
def test_a_trace_is_kept_and_no_figure_includes_its_steps(traced_run):
    run, result = traced_run()
    assert result.status == "complete"
    assert (run / "traces" / "rank-00000.json.gz").is_file()
    assert len(list((run / "traces").iterdir())) == 1
    assert [point.step for point in result.loss_curve] == [1, 2, 3, 4, 5, 6]
    assert result.metrics.measured_steps == 4
    note = "after the measured steps and the evaluation, 2 further steps were trained under a profiler"
    assert f"{note}: no figure includes them" in result.notes
    assert recorded_findings(read_run(run)) == []
    assert not any(name.startswith("traces/") for name in result.files)


@pytest.mark.slow
def test_further_steps_that_fail_cost_no_result(traced_run):
    run, result = traced_run(fault="raises", fault_rank="all", fault_step=8)
    assert result.status == "complete"
    assert any(note.endswith("which gave no trace: see the log of rank 0") for note in result.notes)
    assert "llmperf: no trace: " in (run / "logs" / "rank-00000.log").read_text()


def test_a_framework_without_profiler_is_refused_before_anything_starts(stub_plan):
    changes = []
    prepare(SimpleNamespace(values={"trace": 3}, change_plan=changes.append))
    planned = Planned(
        spec=None,
        site=None,
        options=RunOptions(changes=tuple(changes)),
        machine=SimpleNamespace(here=True),
        plugins=Plugins(),
        flops=None,
        batch=None,
        plan=stub_plan(),
    )
    with pytest.raises(UserError, match="--trace: framework stub has no profiler here"):
        startable(planned)


@pytest.mark.slow
def test_chosen_steps_have_a_trace_for_each_range(traced_run):
    run, result = traced_run(chosen=(8, 10, 11))
    assert result.status == "complete"
    assert [file.name for file in sorted((run / "traces").iterdir())] == [
        "rank-00000-step-10-11.json.gz",
        "rank-00000-step-8-8.json.gz",
    ]
    records = rank_records(run, 0)
    profiles = [record.profile for record in records if isinstance(record, ProfileRecord)]
    assert [(profile.first_step, profile.steps) for profile in profiles] == [(8, 1), (10, 2)]
    assert profiles[1].trace == "traces/rank-00000-step-10-11.json.gz"
    assert result.metrics.measured_steps == 4
    assert any("3 further steps were trained under a profiler: no figure" in note for note in result.notes)
    traced_seconds = recorded_curves(run).traced_seconds
    assert sum(traced_seconds.values()) == pytest.approx(1.0)


def test_steps_that_would_disturb_the_measurement_are_refused(stub_plan):
    planned = SimpleNamespace(plan=stub_plan(steps=6), answers=lambda hook: True)
    with pytest.raises(UserError, match="expected steps from 7, after the measured ones, found step 5") as error:
        traced(planned, (5, 6, 9))
    assert str(error.value).endswith("llmperf profile stub --steps 5,6,9 traces them without a result")
    with pytest.raises(UserError, match="--steps 5-5 traces"):
        traced(planned, (5,))
    assert traced(planned, 3).traced_steps == (8, 9, 10)
    assert traced(planned, (7,)).traced_steps == (7,)


@pytest.mark.parametrize(
    ("text", "steps"),
    [("3", 3), ("0", 0), ("12-14", (12, 13, 14)), ("12,15", (12, 15)), ("15-15, 12-13", (12, 13, 15))],
)
def test_steps_are_a_number_or_numbers(text, steps):
    assert Steps().convert(text, None, None) == steps


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1-51", "expected at most 50 steps, found 51."),
        ("60", "expected at most 50 steps, found 60; write 60-60 for step 60."),
        ("1-999999999", "found 999999999"),
        *((text, "such as 12-14 or 12,15") for text in ("", "-3", "14-12", "1-2-3", "0-1", "a", "1,", "²", "9" * 5000)),
    ],
)
def test_other_texts_are_no_steps(text, message):
    with pytest.raises(click.BadParameter, match=message):
        Steps().convert(text, None, None)
