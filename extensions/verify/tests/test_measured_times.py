"""Clocks of runs, windows of ranks against what the agent of their node saw, and step times that nobody measured."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmperf.files import json_files
from llmperf.plugins.loading import load_for
from llmperf.results.run_result import build_result
from llmperf.runfolder import filenames
from llmperf.runfolder.contents import read_run
from llmperf.runfolder.endings import AgentReport
from llmperf.running.launched import run_plan, save_result
from llmperf.validation.check import validate_path
from llmperf.validation.run_folder import recorded_findings
from llmperf_verify.rules.measured_times import ClockRates


def found(run):
    """Code and message of each finding of the files, after the result was computed again."""
    json_files.save(run / "result.json", build_result(run))
    return [(one.code, one.message) for file in validate_path(run / "result.json") for one in file.findings]


def edit_agent(run, change):
    path = filenames.agent_report_path(run, 0)
    report = json.loads(path.read_text())
    for rank in report["ranks"]:
        change(rank)
    path.write_text(json.dumps(report))


def later(phase, clock, seconds):
    def change(rank):
        for seen in rank["phases"]:
            if seen["phase"] == phase:
                seen[clock] += seconds

    return change


def test_a_window_that_the_agent_saw_for_longer_is_an_error(run_folder):
    assert found(run_folder) == []
    edit_agent(run_folder, later("evaluating", "monotonic", 0.9))
    assert "LP656" not in dict(found(run_folder))
    edit_agent(run_folder, later("evaluating", "monotonic", 2.0))
    messages = [message for code, message in found(run_folder) if code == "LP656"]
    seen = "from measuring to evaluating of rank 0, as the agent of its node saw"
    assert messages == [f"expected a window of about 6.74 s ({seen}), found 3.84 s; and 1 more of this kind"]


def test_an_agent_whose_clock_is_not_the_kernels_is_warned_of(run_folder):
    edit_agent(run_folder, later("evaluating", "uptime", 3.0))
    message = dict(found(run_folder))["LP657"]
    assert message.startswith("expected a window of about 6.84 s (by the uptime that the kernel shows), found 3.84 s")


def test_a_window_that_no_agent_saw_is_warned_of(run_folder):
    edit_agent(run_folder, lambda rank: rank.pop("phases"))
    assert {code for code, _ in found(run_folder)} == {"LP657"}
    filenames.agent_report_path(run_folder, 0).unlink()
    assert {code for code, _ in found(run_folder)} == {"LP657"}


@pytest.mark.slow
def test_the_agent_sees_the_phases_of_a_run(stub_plan, tmp_path):
    run = tmp_path / "run"
    assert run_plan(stub_plan(steps=12, ranks=2), run, load_for("stub", "stub"), save_result).status == "complete"
    report = json_files.load(filenames.agent_report_path(run, 0), AgentReport)
    assert recorded_findings(read_run(run)) == []
    for rank in report.ranks:
        assert {"measuring", "evaluating", "done"} <= {seen.phase for seen in rank.phases}
        assert [seen.monotonic for seen in rank.phases] == sorted(seen.monotonic for seen in rank.phases)


@pytest.mark.slow
def test_a_rank_with_a_slowed_clock_is_found(stub_plan, tmp_path, monkeypatch):
    slow = "import time\nreal = time.monotonic\nbegan = real()\ntime.monotonic = lambda: began + (real() - began) / 4\n"
    (tmp_path / "site").mkdir()
    only_ranks = "import sys\nif 'llmperf.measuring.worker' in sys.orig_argv:\n"
    text = only_ranks + "".join(f"    {line}\n" for line in slow.splitlines())
    (tmp_path / "site" / "sitecustomize.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'site'}:{os.environ['PYTHONPATH']}")
    run = tmp_path / "run"
    run_plan(stub_plan(steps=200, ranks=1), run, load_for("stub", "stub"), save_result)
    assert "LP656" in {one.code for one in recorded_findings(read_run(run))}


def scaled(run, names, factor=0.8, files="*"):
    """Every reading of these clocks, from the first one on, takes `factor` as long in the records of a run."""
    paths = [path for path in (run / "records").glob(files) if path.suffix in (".json", ".jsonl")]
    first = {}

    def change(value):
        if isinstance(value, dict):
            for name, inner in value.items():
                if name in names and isinstance(inner, float):
                    begin = first.setdefault(name, inner)
                    value[name] = begin + (inner - begin) * factor
                elif name in ("step_seconds", "window_seconds"):
                    value[name] = inner * factor
                else:
                    change(inner)
        elif isinstance(value, list):
            for inner in value:
                change(inner)
        return value

    for path in sorted(paths, key=lambda path: path.name, reverse=True):
        if path.suffix == ".json":
            path.write_text(json.dumps(change(json.loads(path.read_text()))))
        else:
            lines = [json.dumps(change(json.loads(line))) for line in path.read_text().splitlines()]
            path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("clocks", "files", "because"),
    [
        (("at", "monotonic"), "*", "by the uptime that the kernel shows"),
        (("monotonic", "uptime"), "*", "by the wall clock of the host"),
        (("at", "monotonic"), "rank-*", "by the agent's clock"),
    ],
)
def test_forgery_c_clocks_that_contradict_one_another(run_folder, clocks, files, because):
    scaled(run_folder, clocks, files=files)
    messages = [message for code, message in found(run_folder) if code == "LP666"]
    assert len(messages) == 1  # one cause
    assert because in messages[0] or "when its agent saw it" in messages[0]


@given(st.lists(st.floats(0.5, 30.0), min_size=4, max_size=30), st.integers(0, 29), st.floats(0.0, 0.04))
def test_clocks_of_one_host_agree_however_late_they_are_read(intervals, place, late):
    rates, at = ClockRates(), 1e9
    for index, seconds in enumerate(intervals):
        at += seconds
        rates.add(at + 3600.0 * (index >= place), at - 1e9 + late * (index % 2))
    assert rates.contradiction is None


@given(st.lists(st.floats(0.7, 30.0), min_size=3, max_size=30), st.sampled_from([0.5, 0.8, 1.25]))
def test_a_scaled_clock_is_found(intervals, factor):
    rates, at = ClockRates(), 0.0
    for seconds in intervals:
        at += seconds
        rates.add(at, at * factor)
    wrong = rates.contradiction
    assert wrong.second / wrong.first == pytest.approx(factor)


def with_steps(run, times_of_rank):
    """Codes after the measured steps of each rank were replaced by steps of other times."""
    for rank, path in enumerate(sorted((run / "records").glob("rank-*.jsonl"))):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        step = next(line for line in lines if line.get("measured"))
        others = [line for line in lines if line["kind"] != "step"]
        steps = [{**step, "step": 100 + place, "step_seconds": seconds}
                 for place, seconds in enumerate(times_of_rank(rank))]  # fmt: skip
        path.write_text("".join(json.dumps(line) + "\n" for line in [*steps, *others]))
    return {finding.code for finding in recorded_findings(read_run(run))}


def uneven(rank, steps):
    return [0.1 + 0.001 * ((7919 * (step + 1) * (rank + 3)) % 1009) / 1009 for step in range(steps)]


@pytest.mark.parametrize(
    ("times_of_rank", "expected"),
    [
        (lambda rank: uneven(rank, 40), set()),
        (lambda rank: [0.1] * 40, {"LP648", "LP649"}),
        (lambda rank: uneven(0, 40), {"LP649"}),
        (lambda rank: uneven(rank, 12) * 4, {"LP648"}),
        (lambda rank: [seconds * (1 + 0.07 * rank) for seconds in uneven(0, 40)], {"LP649"}),
    ],
    ids=["honest", "equal", "copied", "played back", "scaled"],
)
def test_step_times_that_nobody_measured_are_found(run_folder, times_of_rank, expected):
    assert with_steps(run_folder, times_of_rank) & {"LP648", "LP649"} == expected
