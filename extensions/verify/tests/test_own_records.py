"""Windows, phases, steps and data that the records of ranks state, against one another."""

import json

import pytest
from llmperf.cli.main import call
from llmperf.files import json_files
from llmperf.plugins.loading import load_for
from llmperf.results.run_result import build_result
from llmperf.runfolder.contents import read_run
from llmperf.running.measure import check
from llmperf.types import Result
from llmperf.validation.check import validate_path
from llmperf.validation.run_folder import recorded_findings


def codes(run):
    return {finding.code for file in validate_path(run / "result.json") for finding in file.findings}


def resealed(run, change):
    """Codes after every record was changed and the result computed again from that."""
    for path in (run / "records").glob("rank-*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            change(line)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    json_files.save(run / "result.json", build_result(run))
    return codes(run)


def scaled(*names, factor=0.5):
    def change(record):
        record.update({name: record[name] * factor for name in names if name in record})

    return change


def window_of_nine_tenths(record):
    """What a tolerance of 10 % let pass."""
    if "window_seconds" in record:
        record["window_seconds"] *= 0.905


def both_tolerances(record):
    """Steps shorter than what lies between them, and a window shorter than its steps."""
    scaled("step_seconds", factor=0.91)(record)
    scaled("window_seconds", factor=0.91 * 0.905)(record)


def shorter_phases(record):
    """Window, steps and phases agree; when the steps were handed over does not."""
    scaled("step_seconds", "window_seconds", factor=0.8)(record)
    if record.get("phase") == "measuring":
        record["monotonic"] += 0.2 * 3.84


def early_end(record):
    scaled("step_seconds", "window_seconds", factor=0.8)(record)
    if record.get("phase") == "evaluating":
        record["monotonic"] -= 0.2 * 3.84


def no_phases(record):
    scaled("step_seconds", "window_seconds", factor=0.8)(record)
    if record["kind"] == "phase":
        record["phase"] = "loading"


def backwards(record):
    if record.get("step") == 5:
        record["monotonic"] -= 1.0


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (scaled("window_seconds"), {"LP206", "LP642", "LP646"}),
        (scaled("step_seconds"), {"LP206", "LP643"}),
        (scaled("step_seconds", "window_seconds"), {"LP646"}),
        (scaled("step_seconds", "window_seconds", factor=0.95), {"LP646"}),
        (window_of_nine_tenths, {"LP642", "LP646"}),
        (both_tolerances, {"LP642", "LP646"}),
        (shorter_phases, {"LP647"}),
        (early_end, {"LP647"}),
        (no_phases, {"LP646"}),
        (backwards, {"LP647"}),
        (scaled("step_seconds", factor=0.97), {"LP643"}),
        (lambda record: record.update(tokens=1) if "tokens" in record else None, {"LP644"}),
        (lambda record: record.update(measured_steps=5) if "measured_steps" in record else None, {"LP644"}),
    ],
)
def test_records_that_disagree_are_found_though_the_result_follows_from_them(run_folder, change, expected):
    assert resealed(run_folder, change) - {"LP666"} == expected
    assert call(["validate", str(run_folder / "result.json")]) == 1


@pytest.mark.parametrize("seconds", [3.0, -3600.0])
def test_a_wall_clock_that_is_set_during_a_run_is_no_finding(run_folder, seconds):
    def jump(record):
        if record.get("step", 0) >= 4 or record.get("phase") in ("evaluating", "done"):
            record["at"] += seconds

    assert resealed(run_folder, jump) == set()


def test_a_run_tells_what_validate_tells_of_its_records(run_folder):
    resealed(run_folder, scaled("step_seconds", "window_seconds"))
    checked = check(
        json_files.load(run_folder / "result.json", Result),
        run_folder,
        load_for(None, None),
        recorded_findings(read_run(run_folder)),
    )
    assert {one.code for one in checked.findings} == codes(run_folder) == {"LP646"}
    assert "LP646 error" in (run_folder / "report.md").read_text()
    assert any(one.severity == "error" for one in checked.findings)


def test_a_rank_that_read_other_data_than_the_plan_is_found(run_folder):
    plan = json.loads((run_folder / "plan.json").read_text())
    (run_folder / "plan.json").write_text(json.dumps(plan | {"data_fingerprint": "c" * 64}))

    def with_data(record):
        if record["kind"] == "rank":
            record["data_fingerprint"] = "cd"[record["rank"]] * 64

    assert "LP661" in resealed(run_folder, with_data)
    messages = [finding.message for finding in recorded_findings(read_run(run_folder)) if finding.code == "LP661"]
    plan, other = "c" * 12, "d" * 12
    fingerprint = f"expected data with the fingerprint {plan} (that of the plan), found {other}"
    assert messages == [f"{fingerprint}: rank 1 read other data"]
