"""`llmperf compare --explain`: which operations account for the difference of two traced steps."""

import json
import shutil
from pathlib import Path

import pytest
from llmperf.files import json_files
from llmperf.results.run_result import build_result
from llmperf.runfolder import filenames
from llmperf.types import ProfiledOperation, StepProfile
from llmperf.types.records import ProfileRecord
from llmperf_trace.differences import TracedRun, trace_difference
from llmperf_trace.explain import explanation_page


def profile(step=1.0, mm=0.5, add=0.2, attention=0.0, communication=0.1, idle=0.1):
    times = {("aten.mm", "matmul"): mm, ("aten.add", "elementwise"): add, ("aten.flash", "attention"): attention}
    return StepProfile(
        rank=0,
        steps=2,
        profiler="torch.profiler 2.15",
        clock="device",
        step_seconds=step,
        operations=tuple(
            ProfiledOperation(name=name, kind=kind, seconds=seconds, calls=2)
            for (name, kind), seconds in times.items()
            if seconds
        ),
        communication_seconds=communication,
        overlapped_seconds=communication / 2,
        idle_seconds=idle,
    )


def traced(made, name="run"):
    """Its measured steps take as long as the traced ones but for the profiler."""
    return TracedRun(run_id=name, profile=made, measured_seconds=made.step_seconds - 0.5)


def test_differences_of_operations_add_up_to_that_of_the_steps():
    found = trace_difference(traced(profile(step=1.4, mm=0.8, attention=0.05)), traced(profile(idle=0.2)))
    by_name = {part.name: part for part in found.parts}
    assert by_name["aten.mm"].difference == pytest.approx(0.3)
    assert (by_name["aten.flash"].seconds, by_name["aten.flash"].reference_seconds) == (0.05, 0.0)
    assert {part.name for part in found.kinds} == {
        "products", "attention", "collectives", "memory", "host gaps", "other",
    }  # fmt: skip
    for parts in (found.parts, found.kinds):
        assert sum(part.difference for part in parts) == pytest.approx(0.4)
        assert sum(found.share(part) for part in parts) == pytest.approx(1.0)
    assert found.parts[0].name == "aten.mm"


def test_equal_steps_have_no_shares():
    found = trace_difference(traced(profile()), traced(profile()))
    assert {found.share(part) for part in found.parts} == {None}
    assert "no cause" in explanation_page("B", "A", found).answers[0].text


def test_the_largest_causes_are_in_one_sentence():
    found = trace_difference(traced(profile(step=1.4, mm=0.9)), traced(profile()))
    (answer,) = explanation_page("B", "A", found).answers
    assert answer.text == "B's traced step is 400.00 ms longer than A's: products +400.00 ms"


@pytest.fixture
def sides(run_folder, tmp_path, monkeypatch):
    """Two complete runs, `slow` and `fast`, without traces; a function that adds the trace of one."""
    monkeypatch.chdir(tmp_path)
    for name in ("slow", "fast"):
        folder = tmp_path / name
        shutil.copytree(run_folder, folder)
        plan = json_files.load(folder / filenames.PLAN, dict)
        json_files.save(folder / filenames.PLAN, plan | {"run_id": name})
        for file in filenames.record_files(folder):  # no two runs have the same losses
            records = [json.loads(line) for line in file.read_text().splitlines()]
            for record in records:
                if record.get("loss"):
                    record["loss"] -= (name == "fast") * 1e-9
            file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
        json_files.save(folder / filenames.RESULT, build_result(folder))

    def trace(name, made):
        with filenames.records_path(tmp_path / name, 0).open("ab") as file:
            file.write(json_files.encode(ProfileRecord(rank=0, profile=made)) + b"\n")
        json_files.save(tmp_path / name / filenames.RESULT, build_result(tmp_path / name))

    return trace


def test_traced_steps_that_do_not_show_the_measured_difference_are_warned_of():
    slow, fast = profile(step=1.4, mm=0.9), profile()
    usual = trace_difference(traced(slow), traced(fast))
    assert explanation_page("B", "A", usual).warnings == ()
    other = trace_difference(TracedRun(run_id="b", profile=slow, measured_seconds=0.4), traced(fast))
    (warning,) = explanation_page("B", "A", other).warnings
    assert "the measured steps differ by -100.00 ms, the traced ones by +400.00 ms: this does not" in warning.text


def test_compare_explains_runs_with_traces(sides, ran):
    sides("fast", profile())
    sides("slow", profile(step=1.3, add=0.5))
    text = ran(0, "compare", "fast", "slow", "--explain").out
    assert "B's traced step is 300.00 ms longer than A's: memory +300.00 ms" in text
    (row,) = [line.split() for line in text.splitlines() if line.startswith("aten.add (memory)")]
    assert row[2:] == ["200.00", "500.00", "+300.00", "2", "2", "100.0", "%"]
    found = json.loads(ran(0, "compare", "fast", "slow", "--explain", "--format", "json").out)["explanations"]["B"]
    assert found["operations"][0]["name"] == "aten.add"
    assert sum(part["difference_seconds"] for part in found["operations"]) == pytest.approx(found["difference_seconds"])


def test_a_side_without_a_trace_is_named(sides, ran):
    sides("fast", profile())
    out, err = ran(0, "compare", "fast", "slow", "--explain")
    assert "A" in out
    assert err.count("\n") == 1
    assert "--explain: slow: no run has a trace (llmperf run --trace 3)" in err


@pytest.mark.parametrize("seconds", [1e308, -1.0])
def test_times_that_no_profiler_makes_are_refused(sides, ran, seconds):
    sides("fast", profile())
    sides("slow", profile(add=seconds))
    out, err = ran(2, "compare", "fast", "slow", "--explain")
    assert "aten.add: expected 0 to 1e+09 seconds, found" in err
    assert out == ""


def test_records_of_another_result_explain_nothing(sides, ran):
    sides("fast", profile())
    sides("slow", profile())
    with filenames.records_path(Path("slow"), 0).open("ab") as file:
        file.write(json_files.encode(ProfileRecord(rank=0, profile=profile(add=0.9))) + b"\n")
    out, err = ran(2, "compare", "fast", "slow", "--explain")
    assert "rank-00000.jsonl: expected the records of slow/result.json, found others (another hash)" in err
    assert out == ""
