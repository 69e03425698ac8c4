"""`llmperf profile`: a profile of one rank, labelled, which never becomes a result."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from llmperf.cli.main import call
from llmperf.errors import RunFailed, UserError
from llmperf.files import json_files
from llmperf.measuring.profiled import ProfileTask
from llmperf.plugins.loading import Plugins, load_for
from llmperf.results.build import build_result
from llmperf.running.profile import Profile, profile_run
from llmperf.types import DeviceRates


@pytest.fixture
def profiled(stub_plan, tmp_path):
    """A function that profiles the stub framework on two ranks."""

    def done(task=None, plugins=None, rates=None, **options):
        planned = SimpleNamespace(
            plan=replace(stub_plan(ranks=2, step_seconds=0.01, **options), rates=rates),
            plugins=plugins or load_for("stub", "stub"),
            machine=SimpleNamespace(launcher=None),
        )
        task = task or ProfileTask(steps=(2, 3), rank=0)
        return profile_run(planned, tmp_path / "runs", task, lambda line: None)

    return done


@pytest.mark.slow
def test_a_profile_gives_time_by_kind_and_is_no_result(profiled, tmp_path, capsys):
    document = profiled()
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
    assert call(["report", str(run)]) == 2
    assert "its plan has purpose 'profile', which has no result" in capsys.readouterr().err


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
def test_the_gap_to_the_estimate_is_shown_where_rates_are_known(profiled, monkeypatch):
    times = [SimpleNamespace(kind="matmul", seconds=0.45), SimpleNamespace(kind="norm", seconds=0.1)]
    monkeypatch.setattr("llmperf.running.profile.operation_times", lambda *_: times)
    document = profiled(ProfileTask(steps=(1,), rank=0, trace=False), rates=RATES)
    assert (document.rates, document.profile.trace) == ("assumed", None)
    assert [(each.kind, each.seconds, each.estimated_seconds) for each in document.kinds] == [
        ("matmul", 0.5, 0.45),
        ("elementwise", 0.4, 0.0),
        ("norm", 0.0, 0.1),
    ]


@pytest.mark.slow
def test_a_rank_that_fails_under_the_profiler_is_named(profiled):
    with pytest.raises(RunFailed, match="rank 1 exception"):
        profiled(fault="raises", fault_rank=1, fault_step=2)


def test_a_rank_that_does_not_exist_is_refused(profiled):
    with pytest.raises(UserError, match="--rank: expected at most 1, found 2"):
        profiled(ProfileTask(steps=(1,), rank=2))


def test_a_framework_without_profiler_is_refused(profiled):
    with pytest.raises(UserError, match="stub has no profiler"):
        profiled(plugins=Plugins())
