"""Several runs in a row, and runs whose llmperf was killed."""

from __future__ import annotations

import pytest
from llmperf.files import json_files
from llmperf.planning.states import Request, Selection
from llmperf.plugins.loading import load_for
from llmperf.running.launched import run_plan
from llmperf.running.measure import Series
from llmperf.types import Result


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
