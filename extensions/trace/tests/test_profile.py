"""`llmperf profile`: a profile of one rank, labelled, which never becomes a result."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from llmperf.errors import RunFailed, UserError
from llmperf.files import json_files
from llmperf.plugins.loading import Plugins, load_for
from llmperf.results.run_result import build_result
from llmperf.running.launched import Task
from llmperf.types import DeviceRates, ExpectedWork, ProfiledOperation, StepProfile
from llmperf_trace.profile import Profile, contradiction, profiled


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


RATES = DeviceRates(
    device_model="Stub S1",
    basis="assumed",
    matmul_flops_per_second={"fp32": 1e12},
    attention_flops_per_second={},
    memory_bytes_per_second=1e11,
    launch_seconds=1e-6,
    memory_bytes=None,
    source="a test",
    date="2026-01-01",
)


@pytest.mark.slow
def test_the_gap_to_the_estimate_is_shown_where_rates_are_known(profile, monkeypatch):
    work = ExpectedWork(rank=0, method="analytic", flops=1e12, bytes=1e9, seconds={"matmul": 0.45, "norm": 0.1})
    monkeypatch.setattr("llmperf_trace.profile.expected_work", lambda plan: (work,))
    document = profile(steps=(1,), trace=False, rates=RATES)
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


def test_a_rank_that_does_not_exist_is_refused(profile):
    with pytest.raises(UserError, match="--rank: expected at most 1, found 2"):
        profile(rank=2)


def test_a_framework_without_profiler_is_refused(profile):
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
