"""`llmperf recover`: the result of a run whose llmperf was killed."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from llmperf.cli.main import call
from llmperf.files import json_files
from llmperf.measuring.processes import left_of_run
from llmperf.plugins.loading import load_for
from llmperf.runfolder import filenames
from llmperf.runfolder.reader import RecordFile
from llmperf.running.launched import run_plan, save_result
from llmperf.types import Result
from llmperf.validation.check import validate_path

CONTROLLER = Path(__file__).parents[3] / "core" / "tests" / "stub" / "run_controller.py"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="starts and kills processes as on Linux")


OF_THE_STUB = ("LP303", "LP304")
"""The stub plugins build another model than they say, whatever becomes of their run."""


def errors_in(run: Path) -> list[str]:
    """The error findings of `validate` in a run folder of the stub."""
    return [
        f"{finding.code} {finding.message}"
        for file in validate_path(run)
        for finding in file.findings
        if finding.severity == "error" and finding.code not in OF_THE_STUB
    ]


def take_away(run: Path, *names: str) -> None:
    for name in names:
        (run / name).unlink()


@pytest.mark.slow
def test_a_run_whose_controller_is_killed_is_failed_at_the_step_that_it_had_reached(stub_plan, tmp_path, ran, capsys):
    plan = stub_plan(steps=5000)
    json_files.save(tmp_path / "plan-in.json", plan)
    run = tmp_path / "run"
    controller = subprocess.Popen([sys.executable, str(CONTROLLER), str(tmp_path / "plan-in.json"), str(run)])
    try:
        limit = time.monotonic() + 100
        while len(RecordFile(filenames.records_path(run, 0)).new()) < 12:
            assert time.monotonic() < limit
            time.sleep(0.02)
        assert "expected a run that has ended, found that its llmperf still runs" in ran(2, "recover", run).err
    finally:
        controller.kill()
        controller.wait()
    limit = time.monotonic() + 100
    while left_of_run(plan.run_id):
        assert time.monotonic() < limit
        time.sleep(0.02)
    assert call(["recover", str(run)]) == 1
    result = json_files.load(run / filenames.RESULT, Result)
    assert (result.status, result.failure.reason) == ("failed", "controller")
    assert f" of {plan.spec.contract.steps} steps are recorded" in result.failure.message
    assert len(result.loss_curve) > 5
    assert result.metrics.tokens_per_second_per_device is None
    assert any("llmperf recover" in note for note in result.notes)
    assert errors_in(run) == []
    assert "run folder: " in capsys.readouterr().out
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert "has its result already: failed" in ran(1, "recover", run).out
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_run_whose_ranks_had_written_everything_is_complete(run_folder, ran):
    result = json_files.load(run_folder / filenames.RESULT, Result)
    take_away(run_folder, filenames.RESULT, filenames.ENDING)
    assert "`llmperf recover` makes its result" in ran(0, "validate", run_folder).out
    assert call(["recover", str(run_folder)]) == 0
    recovered = json_files.load(run_folder / filenames.RESULT, Result)
    assert (recovered.status, recovered.failure) == ("complete", None)
    assert recovered.metrics == result.metrics
    assert errors_in(run_folder) == []


@pytest.mark.slow
def test_a_controller_that_was_killed_between_ending_and_result_or_report(stub_plan, tmp_path):
    run = tmp_path / "run"
    result = run_plan(stub_plan(steps=200, fault="raises"), run, load_for("stub", "stub"), save_result)
    for names in ((filenames.RESULT,), (filenames.REPORT,)):
        take_away(run, *names)
        assert call(["recover", str(run)]) == 1
        recovered = json_files.load(run / filenames.RESULT, Result)
        assert (recovered.failure, recovered.finished) == (result.failure, result.finished)
        assert (run / filenames.REPORT).is_file()


@pytest.mark.slow
def test_a_power_cut_leaves_half_a_line_and_no_agent_report(stub_plan, tmp_path):
    run = tmp_path / "run"
    run_plan(stub_plan(steps=12), run, load_for("stub", "stub"), save_result)
    take_away(run, filenames.RESULT, filenames.ENDING, "records/agent-000.json")
    records = filenames.records_path(run, 1)
    text = records.read_bytes()
    os.truncate(records, text.rindex(b'{"kind":"step"') + 40)
    assert call(["recover", str(run)]) == 1
    document = json.loads((run / filenames.RESULT).read_text())
    assert document["failure"]["reason"] == "controller"
    assert "11 of 12 steps are recorded" in document["failure"]["message"]
    assert errors_in(run) == []


def test_a_folder_that_is_no_runs_is_refused(tmp_path, ran):
    assert "plan.json" in ran(2, "recover", tmp_path).err
