"""`llmperf_compare.load_results`: what programs and notebooks read."""

import builtins
import csv
import io
import math
from pathlib import Path

import llmperf_compare
import pytest
from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.reporting.exports import CsvReporter
from llmperf.runfolder import filenames
from llmperf.types import Result
from llmperf.types.devices import DeviceSample
from llmperf.types.records import MemorySample
from llmperf_verify.pack_command import pack

PUBLISHED = Path(__file__).parents[3] / "extensions/published/src/llmperf_published/data"


def test_values_are_those_of_the_csv_report(run_folder):
    (result,) = llmperf_compare.load_results(run_folder)
    (row,) = csv.DictReader(io.StringIO(CsvReporter().render([result.sheet], "en")))
    assert ["path", *result.values] == list(row)
    assert float(row["tokens_per_second_per_device"]) == result.values["tokens_per_second_per_device"]
    assert result.measured
    assert result.valid == (not any(finding.severity == "error" for finding in result.findings))
    assert result.document.run_id == result.values["run_id"]


@pytest.mark.slow
def test_a_frame_has_a_row_for_each_result_and_nan_where_unknown(run_folder):
    pytest.importorskip("pandas")
    frame = llmperf_compare.load_results(run_folder, str(PUBLISHED)).to_frame()
    measured = frame[frame.path == str(run_folder / "result.json")]
    assert len(measured) == 1
    assert len(frame) > 10
    assert frame.tokens_per_second_per_device.dtype == float
    assert measured.power_watts.isna().all()
    exact = json_files.load(run_folder / filenames.RESULT, Result).metrics.tokens_per_second_per_device
    assert measured.tokens_per_second_per_device.item() == exact


@pytest.mark.slow
def test_standings_have_a_row_for_each_kind_of_run(run_folder):
    pytest.importorskip("pandas")
    results = llmperf_compare.load_results(run_folder, PUBLISHED)
    frame = results.standings_frame()
    assert len(frame) == sum(len(standing.entries) for standing in results.standings())
    (measured,) = frame[frame.measured].to_dict("records")
    exact = json_files.load(run_folder / filenames.RESULT, Result).metrics.tokens_per_second_per_device
    assert (measured["runs"], measured["tokens_per_second_per_device"]) == (1, exact)
    assert measured["tokens_per_second_per_device_how"] == "measured"
    assert math.isnan(measured["tokens_per_second_per_device_low"])
    assert {"printed", "computed"} <= set(frame.mfu_nominal_how)


def test_steps_of_all_ranks(run_folder):
    """The slowest rank counts; memory is that of the last reading before the end of the step."""
    first = json_files.load(run_folder / filenames.RESULT, Result)
    steps = llmperf_compare.load_results(run_folder)[0].steps()
    end = 1768469405.0 - (1768469405.0 - 500.0) + steps[0].seconds
    sample = MemorySample(
        at=0.0,
        monotonic=end + 0.1,
        query_seconds=0.0,
        devices=(DeviceSample(index=0, memory_used_bytes=5, memory_total_bytes=9),),
    )
    (run_folder / filenames.MEMORY).write_bytes(json_files.encode(sample) + b"\n")
    steps = llmperf_compare.load_results(run_folder)[0].steps()
    assert [step.step for step in steps] == list(range(1, first.contract.steps + 1))
    assert [step.measured for step in steps].count(False) == first.contract.warmup_steps
    assert [step.loss for step in steps] == [point.loss for point in first.loss_curve]
    assert steps[0].tokens == first.batch.tokens_per_step
    assert steps[-1].seconds > 0.64
    assert (steps[0].memory_used_bytes, steps[-1].memory_used_bytes) == (None, 5)


def test_without_records_a_step_has_its_loss_alone(run_folder, tmp_path):
    pytest.importorskip("pandas")
    alone = tmp_path / "result.json"
    alone.write_bytes((run_folder / filenames.RESULT).read_bytes())
    (result,) = llmperf_compare.load_results(alone)
    frame = result.steps_frame()
    assert frame.index.name == "step"
    assert frame.seconds.isna().all()
    assert math.isclose(frame.loss.iloc[0], result.values["first_loss"])


def test_an_archive_is_read_without_trust(run_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("llmperf_verify.pack_command.Validator.validated", lambda self, run: [])
    archive = tmp_path / "submission.zip"
    pack([run_folder], archive)
    (result,) = llmperf_compare.load_results(archive)
    assert result.path == f"{archive}/run/result.json"
    scratch = result.sheet.source.path.parent
    assert len(result.steps()) == result.document.contract.steps
    del result
    assert not scratch.exists()
    (tmp_path / "bad.zip").write_bytes(b"PK nothing")
    with pytest.raises(UserError, match=r"bad\.zip: cannot be unpacked"):
        llmperf_compare.load_results(tmp_path / "bad.zip")


def test_files_that_cannot_be_read_are_named(run_folder):
    other = run_folder.parent / "other"
    other.mkdir()
    (other / "result.json").write_text('{"schema": "llmperf/result/1"')
    with pytest.warns(UserWarning, match=r"left out: .*other/result\.json: "):
        results = llmperf_compare.load_results(run_folder.parent)
    assert len(results) == len(results.left_out) == 1
    with pytest.raises(UserError, match="nowhere: no such file or folder"):
        llmperf_compare.load_results("nowhere")


def test_without_pandas_the_command_to_install_it_is_named(run_folder, monkeypatch):
    results = llmperf_compare.load_results(run_folder)
    real = builtins.__import__

    def importing(name, *rest):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", importing)
    with pytest.raises(UserError, match="pip install pandas"):
        results.to_frame()
