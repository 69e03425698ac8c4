"""`llmperf run --trace N`: steps after the measured ones, which no figure includes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from llmperf.errors import UserError
from llmperf.planning.states import Planned, Request
from llmperf.plugins.loading import Plugins, load_for
from llmperf.running.launched import run_plan
from llmperf.running.measure import startable
from llmperf.validation.run_folder import recorded_findings


@pytest.fixture
def traced(stub_plan, tmp_path):
    """A function that runs the stub framework on two ranks, with two further steps under its profiler."""

    def done(**options):
        plan = replace(stub_plan(ranks=2, steps=6, **options), trace_steps=2)
        run = tmp_path / "run"
        return run, run_plan(plan, run, load_for("stub", "stub"), None, lambda line: None)

    return done


def test_a_trace_is_kept_and_no_figure_includes_its_steps(traced):
    run, result = traced()
    assert result.status == "complete"
    assert (run / "traces" / "rank-00000.json.gz").is_file()
    assert len(list((run / "traces").iterdir())) == 1
    assert [point.step for point in result.loss_curve] == [1, 2, 3, 4, 5, 6]
    assert result.metrics.measured_steps == 4
    note = "after the measured steps and the evaluation, 2 further steps were trained under a profiler"
    assert f"{note}: no figure includes them" in result.notes
    assert recorded_findings(run) == ()
    assert not any(name.startswith("traces/") for name in result.files)


def test_further_steps_that_fail_cost_no_result(traced):
    run, result = traced(fault="raises", fault_rank="all", fault_step=8)
    assert result.status == "complete"
    assert any(note.endswith("which gave no trace: see the log of rank 0") for note in result.notes)
    assert "llmperf: no trace: " in (run / "logs" / "rank-00000.log").read_text()


def test_a_framework_without_profiler_is_refused(stub_plan):
    planned = Planned(
        resolved=SimpleNamespace(
            request=Request(case="stub", trace_steps=3), machine=SimpleNamespace(here=True), plugins=Plugins()
        ),
        plan=stub_plan(),
    )
    with pytest.raises(UserError, match="--trace: framework stub has no profiler here"):
        startable(planned)
