"""Groups of runs held against each other."""

from __future__ import annotations

import json
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf.cli.main import call
from llmperf.results.comparison import bootstrap_interval, compare, mid_ranks, rank_sum_p

figures = st.lists(st.floats(1.0, 1e6), min_size=2, max_size=6)


def test_the_rank_sum_test_gives_the_published_values():
    """Mann and Whitney's table: complete separation of 4 and 4 has 2 of 70 divisions, of 5 and 5 2 of 252."""
    assert rank_sum_p([1, 2, 3, 4], [5, 6, 7, 8]) == pytest.approx(2 / 70)
    assert rank_sum_p([6, 7, 8, 9, 10], [1, 2, 3, 4, 5]) == pytest.approx(2 / 252)
    assert rank_sum_p([1, 3, 5], [2, 4, 6]) == pytest.approx(0.7)


def test_ties_share_their_rank():
    assert mid_ranks([10.0, 20.0, 20.0, 30.0]) == [1.0, 2.5, 2.5, 4.0]
    assert rank_sum_p([5.0] * 4, [5.0] * 4) == 1.0


def test_many_runs_are_drawn():
    low, high = [100.0 + n for n in range(15)], [200.0 + n for n in range(15)]
    assert rank_sum_p(low, high) < 0.001
    assert rank_sum_p(low, low) > 0.5


def test_one_run_each_tells_nothing():
    found = compare([200.0], [100.0])
    assert (found.ratio, found.verdict, found.p_value, found.low) == (2.0, "cannot tell", None, None)
    assert "--repeat" in found.why


def test_too_few_runs_cannot_be_significant():
    found = compare([3.0, 3.1, 3.2], [1.0, 1.1, 1.2])
    assert found.verdict == "cannot tell"
    assert "four each can" in found.why


def test_separated_groups_are_told_apart_both_ways():
    fast, slow = [110.0, 111.0, 112.0, 113.0], [100.0, 101.0, 102.0, 103.0]
    assert compare(fast, slow).verdict == "higher"
    assert compare(slow, fast).verdict == "lower"
    assert compare(fast, fast).verdict == "no difference shown"


def test_the_verdict_has_the_direction_of_the_ranks_that_it_rests_on():
    """The medians are equal, and yet no run of the one group is faster than one of the other."""
    faster, slower = [1.0] * 5 + [2.0] * 4, [1.0] * 5 + [0.5] * 4
    found = compare(faster, slower)
    assert (found.verdict, found.ratio) == ("higher", 1.0)
    assert found.why.endswith("p = 0.0104, which the medians do not show")
    assert compare(slower, faster).verdict == "lower"


@settings(max_examples=30, deadline=None)
@given(ours=figures, theirs=figures)
def test_the_interval_holds_the_ratio_and_p_is_a_share(ours, theirs):
    found = compare(ours, theirs)
    low, high = bootstrap_interval(ours, theirs)
    assert low <= high
    assert min(ours) / max(theirs) - 1e-9 <= low
    assert high <= max(ours) / min(theirs) + 1e-9
    assert 0 < rank_sum_p(ours, theirs) <= 1
    assert found.ratio == pytest.approx(1 / compare(theirs, ours).ratio)


@pytest.fixture
def folder(example, tmp_path):
    """Write a folder of runs with given throughputs; its path."""
    number = count()

    def write(name, throughputs, **changed):
        for figure in throughputs:
            run_id = f"run-{next(number)}"
            document = json.loads(json.dumps(example)) | {"run_id": run_id}
            document["files"]["records/rank-00000.jsonl"] = f"{next(number):064x}"
            document["metrics"]["tokens_per_second_per_device"] = figure
            document["contract"] |= changed.get("contract", {})
            document["fix_hp"] = changed.get("fix_hp", [])
            run = tmp_path / name / document["run_id"]
            run.mkdir(parents=True)
            (run / "result.json").write_text(json.dumps(document))
        return str(tmp_path / name)

    return write


def test_compare_prints_ratios_and_a_verdict(folder, capsys):
    after, before = folder("after", [110.0, 111.0, 112.0, 113.0]), folder("before", [100.0, 101.0, 102.0, 103.0])
    assert call(["compare", after, before]) == 0
    out = capsys.readouterr().out
    assert "A (4 runs)" in out
    assert "1.0985" in out
    assert "token/p/s: higher: ratio 1.0985" in out
    assert call(["compare", after, before, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["throughput"]["verdict"] == "higher"


def test_other_contracts_are_not_compared(folder, capsys):
    one, other = folder("one", [1.0]), folder("other", [2.0], contract={"seed": 9})
    assert call(["compare", one, other]) == 1
    assert "the contracts differ in seed" in capsys.readouterr().out


def test_runs_without_a_throughput_are_said(folder, tmp_path, capsys):
    one, none = folder("one", [1.0]), folder("none", [None])
    assert call(["compare", one, none]) == 2
    assert "expected a complete run with a throughput, found none in 1 results" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert call(["summary", str(tmp_path / "empty")]) == 2
    assert "no result, plan, records" in capsys.readouterr().err


def test_summary_groups_repeats_and_fails_below(folder, capsys):
    runs, slower = folder("runs", [90.0, 92.0, 94.0]), folder("baseline", [100.0, 100.0])
    assert call(["summary", runs]) == 0
    out = capsys.readouterr().out
    assert "94.0" in out
    assert "92.0" in out
    assert call(["summary", runs, "--baseline", slower, "--fail-below", "0.9"]) == 0
    assert call(["summary", runs, "--baseline", slower, "--fail-below", "0.95"]) == 1
    assert "1 of 1 below 0.95 of the baseline" in capsys.readouterr().err
    assert call(["summary", runs, "--fail-below", "0.95"]) == 2


def test_a_kind_without_a_baseline_fails_too(folder, capsys):
    change = {"path": "contract.seed", "case_value": 0, "value": 3, "origin": "--set"}
    runs, other = folder("runs", [90.0], fix_hp=[change]), folder("baseline", [100.0])
    assert call(["summary", runs, other, "--json"]) == 0
    assert [kind["of_baseline"] for kind in json.loads(capsys.readouterr().out)] == [None, None]
    assert call(["summary", runs, "--baseline", other, "--fail-below", "0.5"]) == 1
    assert "1 of 1 without a figure or without a baseline" in capsys.readouterr().err


def copies(source, target, mark):
    """Four copies of a run, each a little faster, of which `mark` says that they are one."""
    document = json.loads(next(source.glob("*/result.json")).read_text())
    for number in range(4):
        copy = json.loads(json.dumps(document))
        copy["metrics"]["tokens_per_second_per_device"] *= 1 + number / 1000
        if mark == "records":
            copy["run_id"] += f"-{number}"
        else:
            copy["files"] = {}
        (target / str(number)).mkdir(parents=True)
        (target / str(number) / "result.json").write_text(json.dumps(copy))
    return str(target)


@pytest.mark.parametrize("mark", ["run_id", "records"])
def test_copies_of_one_run_count_once(folder, tmp_path, capsys, mark):
    after, before = (tmp_path / name for name in ("after", "before"))
    folder("after", [110.0]), folder("before", [100.0])
    sides = [copies(one, tmp_path / f"{one.name}-copies", mark) for one in (after, before)]
    assert call(["compare", *sides]) == 0
    told = capsys.readouterr()
    assert "A (1 run)" in told.out
    assert "cannot tell" in told.out
    assert told.err.count("counted once") == 6
    assert call(["summary", sides[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["spread"]["runs"] == 1


@pytest.mark.parametrize("value", ["nan", "inf", "0", "-1"])
def test_what_no_run_could_fail_below_is_refused(folder, capsys, value):
    runs = folder("runs", [90.0])
    assert call(["summary", runs, "--baseline", runs, "--fail-below", value]) == 2
    assert "--fail-below" in capsys.readouterr().err
