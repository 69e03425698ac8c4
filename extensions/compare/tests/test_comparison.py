"""Groups of runs held against each other."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf.cli.main import call
from llmperf_compare.comparison import compare

figures = st.lists(st.floats(1.0, 1e6), min_size=2, max_size=6)


def p_value(ours, theirs):
    return compare(ours, theirs).p_value


def test_the_rank_sum_test_gives_the_published_values():
    """Mann and Whitney's table: complete separation of 4 and 4 has 2 of 70 divisions, of 5 and 5 2 of 252."""
    assert p_value([1, 2, 3, 4], [5, 6, 7, 8]) == pytest.approx(2 / 70)
    assert p_value([6, 7, 8, 9, 10], [1, 2, 3, 4, 5]) == pytest.approx(2 / 252)
    assert p_value([1, 3, 5, 7], [2, 4, 6, 8]) == pytest.approx(48 / 70)
    assert p_value([5.0] * 4, [5.0] * 4) == 1.0
    assert p_value([1.0 + n for n in range(101)], [200.0 + n for n in range(101)]) < 1e-6


@settings(max_examples=50, deadline=None)
@given(ours=figures, theirs=figures)
def test_verdict_interval_and_p_agree(ours, theirs):
    """Also where runs are equal."""
    found = compare(ours, theirs)
    assert found.ratio == pytest.approx(1 / compare(theirs, ours).ratio)
    if found.verdict == "cannot tell":
        assert "four each can" in found.why
        assert (found.low, found.p_value) == (None, None)
        return
    assert found.low <= found.ratio * (1 + 1e-12)
    assert found.ratio <= found.high * (1 + 1e-12)
    verdict = "higher" if found.low > 1 else "lower" if found.high < 1 else "no difference shown"
    assert found.verdict == verdict
    assert (found.p_value < 0.05) == (verdict != "no difference shown")


def test_compare_says_how_many_times_as_fast(folder, ran, capsys):
    after, before = folder("after", [110.0, 111.0, 112.0, 113.0]), folder("before", [100.0, 101.0, 102.0, 103.0])
    out = ran(0, "compare", before, after).out
    assert "A: 4 runs, spread 3.0 %\nB: 4 runs, spread 2.7 %\nall: llama_mini, pretraining, default by zero" in out
    assert "\nB is 1.10 times as fast as A (95 % interval 1.07 to 1.13, p = 0.029, 4 runs a side)\n" in out
    assert "the interval has the ratios that this test does not reject" in out
    (row,) = [line.split() for line in out.splitlines() if line.startswith("token/p/s")]
    assert row == ["token/p/s", "101.5", "111.5", "1.0985"]
    found = sides_of(capsys, [before, after])
    assert (found["reference"], found["comparisons"]["B"]["throughput"]["verdict"]) == ("A", "higher")
    assert found["sides"]["B"]["path"] == after


def test_any_number_of_sides_is_compared_with_the_first_or_the_baseline(folder, ran):
    before, after, alike = folder("before", BEFORE), folder("after", AFTER), folder("alike", [x + 0.1 for x in BEFORE])
    single, other = folder("single", [150.0]), folder("other", [1.0, 2.0], contract={"seed": 9})
    out = ran(1, "compare", before, after, alike, single, other).out
    assert "\nB is 1.10 times as fast as A (95 % interval 1.07 to 1.13, p" in out
    assert (
        "\nno difference shown: C is 1.00 times as fast as A, which can be chance (95 % interval 0.97 to 1.03, p" in out
    )
    assert (
        "\ncannot tell: D measured 1.48 times as fast as A, and a single run has no spread (measure with --repeat 4)"
        in out
    )
    assert "\nthe contracts of E and A differ in seed (A: 0, E: 9): their figures measure different things\n" in out
    assert [title for title in ("B / A", "C / A", "D / A", "E / A") if title not in out] == ["E / A"]


def test_the_reference_is_side_a_in_every_output(folder, ran):
    """With --baseline as without."""
    before, after = folder("before", BEFORE), folder("after", AFTER)
    for form in ("terminal", "markdown", "json", "junit", "github", "sarif"):
        without = ran(0, "compare", before, after, "--format", form).out
        assert ran(0, "compare", after, "--baseline", before, "--format", form).out == without
    assert "B is 1.10 times as fast as A" in without


@pytest.mark.parametrize(("limit", "code"), [("0.9", 0), ("0.95", 1)])
def test_compare_fails_below_a_share_of_the_reference(folder, ran, limit, code):
    fast, slow = folder("fast", AFTER), folder("slow", BEFORE)
    told = ran(code, "compare", slow, "--baseline", fast, "--fail-below", limit)
    assert "B is 0.91 times as fast as A (95 % interval 0.88 to 0.94, p = 0.029" in told.out
    shown = "B measured 0.9103 times as fast as A, below the limit of 0.95; 4 runs a side show it (95 % interval 0.8850"
    assert (shown in told.err) == bool(code)


def test_too_few_or_too_uneven_runs_do_not_show_a_limit(folder, ran):
    fast, slow = folder("fast", BEFORE), folder("slow", [40.0, 41.0])
    uneven = folder("uneven", [60.0, 61.0, 99.0, 103.0])
    told = ran(1, "compare", fast, slow, uneven, "--fail-below", "0.95").err
    below = "times as fast as A, below the limit of 0.95"
    assert f"B measured 0.3990 {below}; 2 and 4 runs are too few to show it" in told
    assert f"C measured 0.7882 {below}; 4 runs a side do not show it, it can be chance (95 % interval" in told


def test_other_contracts_are_not_compared(folder, ran, capsys):
    one, other = folder("one", [1.0]), folder("other", [2.0], contract={"seed": 9})
    out = ran(1, "compare", one, other).out
    assert "the contracts of B and A differ in seed (A: 0, B: 9): their figures measure different things" in out
    assert "B / A" not in out
    (row,) = [line.split() for line in out.splitlines() if line.startswith("token/p/s")]
    assert row == ["token/p/s", "1.0", "2.0"]
    held = sides_of(capsys, [one, other], expected=1)["comparisons"]["B"]
    assert (held["contract_differences"], held["throughput"]) == (["seed"], None)
    facts = {"name": "llama3_8b", "layers": 99, "hidden_size": 8}
    out = ran(1, "compare", one, folder("larger", [2.0], contract={"model": "llama3_8b"}, model=facts)).out
    assert "differ in model (A: llama_mini, B: llama3_8b): their" in out  # of another model only the name is said


def test_runs_without_a_throughput_are_said(folder, tmp_path, ran):
    one, none = folder("one", [1.0]), folder("none", [None])
    assert "expected a complete run with a throughput, found none in 1 results" in ran(2, "compare", one, none).err
    (tmp_path / "empty").mkdir()
    assert "no document in this folder" in ran(2, "summary", tmp_path / "empty").err


def test_a_kind_without_a_baseline_fails_too(folder, ran, capsys):
    change = {"path": "contract.seed", "case_value": 0, "value": 3, "origin": "--set"}
    runs, other = folder("runs", [90.0], fix_hp=[change]), folder("baseline", [100.0])
    assert [kind["of_baseline"] for kind in json.loads(ran(0, "summary", runs, other, "--json").out)] == [None, None]
    assert call(["summary", runs, "--baseline", other, "--fail-below", "0.5"]) == 1
    assert "1 of 1 without a figure or without a baseline" in capsys.readouterr().err


def copies(source, target, mark):
    """Four copies of a run, of which `mark` says that they are one; of the same records, each is a little faster."""
    document = json.loads(next(source.glob("*/result.json")).read_text())
    for number in range(4):
        copy = json.loads(json.dumps(document))
        copy["run_id"] += f"-{number}"
        if mark == "records":
            copy["metrics"]["tokens_per_second_per_device"] *= 1 + number / 1000
        else:
            copy["files"]["records/rank-00000.jsonl"] = f"{abs(hash((source, number))):064x}"
        (target / str(number)).mkdir(parents=True)
        (target / str(number) / "result.json").write_text(json.dumps(copy))
    return str(target)


@pytest.mark.parametrize("mark", ["figures", "records"])
def test_copies_of_one_run_count_once(folder, tmp_path, ran, mark):
    after, before = (tmp_path / name for name in ("after", "before"))
    folder("after", [110.0]), folder("before", [100.0])
    sides = [copies(one, tmp_path / f"{one.name}-copies", mark) for one in (after, before)]
    told = ran(0, "compare", *sides)
    assert "A: 1 run\n" in told.out
    assert "cannot tell" in told.out
    assert told.err.count("counted once") == 2
    assert json.loads(ran(0, "summary", sides[0], "--json").out)[0]["spread"]["runs"] == 1


@pytest.mark.parametrize("value", ["nan", "inf", "0", "-1"])
def test_what_no_run_could_fail_below_is_refused(folder, ran, value):
    runs = folder("runs", [90.0])
    assert "--fail-below" in ran(2, "summary", runs, "--baseline", runs, "--fail-below", value).err


AFTER, BEFORE = [110.0, 111.0, 112.0, 113.0], [100.0, 101.0, 102.0, 103.0]
WHOLE = {"hardware": {"device_share": 1.0, "devices_per_node": 1}, "parallelism": {"devices_per_node": 1}}
UNEVEN = {"median": 0.019, "p5": 0.018, "p95": 0.4, "mean": 0.09, "mean_low": None, "mean_high": None}


def sides_of(capsys, words, expected=0):
    """What `compare` tells a program."""
    assert call(["compare", *words, "--json"]) == expected
    return json.loads(capsys.readouterr().out)


def test_both_sides_are_named(folder, ran, capsys):
    change = {"path": "tuning.micro_batch", "case_value": 2, "value": 4, "origin": "--set"}
    after = folder("after", AFTER, fix_hp=[change])
    before = folder("before", BEFORE, tuning={"framework": "pytorch"})
    out = ran(0, "compare", after, before).out
    where = "TP1 x PP1 x DP2, sharding stage 1 over 2, on 1x2 Example CPU, 2 cores (1/2 each)"
    what = "llama_mini, pretraining, default"
    assert f"A: 4 runs, spread 2.7 %: {what} by zero, {where}, micro_batch=4\n" in out
    assert f"B: 4 runs, spread 3.0 %: {what} by pytorch, {where}, settings of the case\n" in out
    assert "warning" not in out
    kinds = [one["kinds"][0]["kind"]["framework"] for one in sides_of(capsys, [after, before])["sides"].values()]
    assert kinds == ["zero", "pytorch"]


def test_runs_that_do_not_count_are_counted_by_why(folder, tmp_path, ran, capsys):
    after, before = folder("after", AFTER), folder("before", BEFORE)
    folder("after", [99.0, 98.0], status="failed")
    folder("after", [None])
    copies(tmp_path / "before", tmp_path / "before" / "copies", "figures")
    told = ran(0, "compare", after, before)
    assert "A: left out: 2 failed, 1 without a throughput\n" in told.out
    assert "B: left out: 4 copies\n" in told.out
    found = sides_of(capsys, [after, before])["sides"]
    assert found["A"]["left_out"] == {"failed": 2, "without a throughput": 1}
    assert found["B"]["left_out"] == {"copies": 4}


def test_a_run_on_both_sides_is_refused(folder, tmp_path, ran):
    both = folder("all/first", BEFORE)
    folder("all/second", AFTER)
    error = ran(2, "compare", tmp_path / "all", both).err
    assert (
        error
        == "llmperf: A and B: expected each run on one side, found 4 of the 8 runs of A in B too, such as run-10\n"
    )


def test_a_side_that_mixes_kinds_is_told(folder, ran, capsys):
    mixed, one = folder("mixed", AFTER[:2]), folder("one", BEFORE)
    folder("mixed", AFTER[2:], tuning={"framework": "pytorch"}, parallelism={"sharding_stage": 0})
    out = ran(0, "compare", mixed, one).out
    assert "A: 2 runs, spread 0.905 %: llama_mini, pretraining, default by zero" in out
    assert "A: 2 runs, spread 0.889 %: llama_mini, pretraining, default by pytorch" in out
    (warning,) = [line for line in out.splitlines() if line.startswith("warning")]
    assert "A mixes 2 kinds of run, which differ in framework (zero; pytorch), layout (1x2 TP1" in warning
    assert "its medians are of no single kind" in warning
    found = sides_of(capsys, [mixed, one])["sides"]
    assert (found["A"]["mixes"], found["B"]["mixes"]) == (["framework", "layout"], [])


def test_ranks_with_other_parts_of_a_device_are_not_taken_for_devices(folder, ran, capsys):
    whole, halves = folder("whole", [150.0, 151.0, 152.0, 153.0], **WHOLE), folder("halves", BEFORE)
    out = ran(0, "compare", halves, whole).out
    assert "token/p/s of a rank: B is 1.49 times as fast as A (95 % interval 1.46 to 1.53, p" in out
    assert "tokens/s of a whole device: B is 0.75 times as fast as A (95 % interval 0.73 to 0.7" in out
    assert "different parts of a device (A 1/2, B 1): token/p/s is that of a rank, not of a device" in out
    assert "\ntoken/p/s: " not in out
    held = sides_of(capsys, [halves, whole])["comparisons"]["B"]
    assert held["device_throughput"]["verdict"] == "lower"
    assert sides_of(capsys, [halves, folder("more", AFTER)])["comparisons"]["B"]["device_throughput"] is None


def test_summary_keeps_parts_of_a_device_apart(folder, tmp_path, ran):
    folder("runs/whole", [150.0], **WHOLE), folder("runs/halves", [100.0])
    out = ran(0, "summary", tmp_path / "runs").out
    assert "1x2 Example CPU, 2 cores (1/2 each)" in out
    assert "1x1 Example CPU, 2 cores  " in out
    folder("runs/third", [90.0], hardware={"device_share": 1 / 3})
    assert len(json.loads(ran(0, "summary", tmp_path / "runs", "--json").out)) == 3


QUARTERS = [{"median": at, "p25": 0.98 * at, "p75": 1.02 * at} for at in (0.02, 0.021, 0.022, 0.025)]
SLOWER = {"median": 0.021, "p5": 0.02, "p95": 0.025, "mean": 0.022, "mean_low": None, "mean_high": None}
BUSY = " by other processes ({}): its throughput may be too low: run-12"


@pytest.mark.parametrize("command", ["compare", "summary"])
@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        ({"measured_steps": 60, "step_seconds": SLOWER | {"quarters": QUARTERS}},
         ": run-12: the steps became 25 % slower"),
        ({"step_seconds": UNEVEN}, ", with very uneven steps: run-12 (median step 0.0190 s, mean 0.0900 s"),
        ({"other_cpu_share": 0.7}, BUSY.format("up to 70 % of the cores")),
        ({"other_processes": 2}, BUSY.format("on its devices")),
    ],
    ids=["slower", "uneven", "busy cores", "busy devices"],
)  # fmt: skip
def test_disturbed_runs_are_told(folder, ran, command, metrics, told):
    words = [command, folder("runs", [90.0, 92.0])]
    folder("runs", [20.0], metrics=metrics)
    if command == "compare":
        words.append(folder("calm", BEFORE))
    (warning,) = [line for line in ran(0, *words).out.splitlines() if line.startswith("warning")]
    assert f"1 of 3 runs disturbed{told}" in warning
    found = json.loads(ran(0, *words, "--json").out)
    assert (found["sides"]["A"] if command == "compare" else found[0])["disturbed"] == ["run-12"]


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ({"median": 1.0, "p5": 0.9, "p95": 1.2, "mean": 1.6}, True),
        ({"median": 1.0, "p5": 0.5, "p95": 1.6, "mean": 1.0}, True),
        ({"median": 1.0, "p5": 0.8, "p95": 2.3, "mean": 1.4}, False),
    ],
)
def test_what_counts_as_disturbed(folder, ran, steps, told):
    runs = folder("runs", [90.0], metrics={"step_seconds": UNEVEN | steps})
    assert ("1 of 1 run disturbed" in ran(0, "summary", runs).out) == told


def test_a_complete_run_with_errors_is_invalid_in_the_table(folder, capsys):
    assert call(["report", folder("runs", [90.0, 91.0]), "--format", "terminal"]) == 0
    assert re.findall(r"invalid: \d+ errors", capsys.readouterr().out) == ["invalid: 7 errors"] * 2


def test_the_table_of_several_runs_shows_the_part_of_a_device(folder, ran):
    assert ran(0, "report", folder("runs", [90.0, 91.0])).out.count("1x2 Example CPU, 2 cores (1/2 each)") == 2


def test_one_run_has_no_spread(folder, ran):
    runs = folder("runs", [90.0])
    (row,) = [line for line in ran(0, "summary", runs).out.splitlines() if line.startswith("1x2")]
    assert row.split()[-5:] == ["1", "90.0", "-", "-", "90.0"]
    assert json.loads(ran(0, "summary", runs, "--json").out)[0]["spread"]["relative"] is None


def rows_of(capsys, words):
    """What `summary` tells a program, by framework."""
    assert call(["summary", *words, "--json"]) == 0
    return {one["kind"]["framework"]: one for one in json.loads(capsys.readouterr().out)}


def test_each_kind_is_compared_with_the_same_kind_of_the_baseline(folder, tmp_path, ran, capsys):
    """The kinds differ in throughput, and each is its own baseline."""
    for name in ("runs", "again"):
        folder(f"{name}/zero", AFTER)
        folder(f"{name}/pytorch", [50.0, 51.0, 52.0, 53.0], tuning={"framework": "pytorch"})
    runs, again = str(tmp_path / "runs"), str(tmp_path / "again")
    out = " ".join(ran(0, "summary", runs, "--baseline", again, "--fail-below", "0.95").out.split())
    assert out.count("1.0000 no difference shown, p = 1 the same kind") == 2
    rows = rows_of(capsys, [runs, "--baseline", again])
    assert [one["baseline"]["same_kind"] for one in rows.values()] == [True, True]


def test_a_kind_that_the_baseline_lacks_is_held_against_the_fastest_other(folder, tmp_path, ran, capsys):
    runs = folder("runs", AFTER, tuning={"framework": "paddle"})
    folder("base/zero", BEFORE), folder("base/pytorch", [50.0, 51.0, 52.0, 53.0], tuning={"framework": "pytorch"})
    folder("base/whole", [500.0], **WHOLE)
    base = str(tmp_path / "base")
    out = " ".join(ran(0, "summary", runs, "--baseline", base).out.split())
    assert "1.0985 faster, p = 0.029 zero TP1 x PP1 x DP2, sharding stage 1 over 2, settings of the case" in out
    (row,) = rows_of(capsys, [runs, "--baseline", base]).values()
    assert (row["baseline"]["same_kind"], row["comparison"]["verdict"]) == (False, "higher")


@pytest.mark.parametrize(("slow", "shown"), [([90.0, 92.0], 0), ([90.0, 91.0, 92.0, 93.0], 1)])
def test_whether_a_failure_could_be_chance_is_said(folder, ran, slow, shown):
    runs, base = folder("runs", slow), folder("base", BEFORE)
    assert "0 of 1" not in ran(0, "summary", runs, "--baseline", base, "--fail-below", "0.85").err
    told = ran(1, "summary", runs, "--baseline", base, "--fail-below", "0.95")
    assert f"1 of 1 below 0.95 of the baseline, {shown} of them shown to be more than chance" in told.err
    assert ("slower, p = 0.029" if shown else "cannot tell, 2 and 4 runs") in told.out


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"tuning": {"gradient_checkpointing": True}}, "gradient_checkpointing false -> true"),
        ({"batch": {"micro_batch": 1, "gradient_accumulation": 2}}, "micro_batch 2 -> 1; gradient_accumulation 1 -> 2"),
        ({"kernels": {"attention": "by hand"}}, "kernel of attention by torch -> by hand"),
        ({"software": {"environment": {"ATEN_CPU_CAPABILITY": "default"}}}, "ATEN_CPU_CAPABILITY unset -> default"),
        ({"software": {"environment": {"OMP_NUM_THREADS": "4"}}}, "OMP_NUM_THREADS 1 -> 4"),
        ({"software": {"packages": {"torch": "2.14.0"}}}, "torch 2.15.0 -> 2.14.0"),
        ({}, None),
    ],
)
def test_the_first_line_says_in_what_two_sides_differ(folder, ran, example, changed, told):
    alike = {"batch": {"micro_batch": 2, "gradient_accumulation": 1}, "kernels": {"attention": "by torch"},
             "software": {"environment": {"OMP_NUM_THREADS": "1"}, "packages": {"torch": "2.15.0"},
                          "notable_packages": ["torch"]}}  # fmt: skip
    before = folder("before", [100.0, 101.0], **alike)
    software = alike["software"] | changed.get("software", {})
    if "environment" in changed.get("software", {}):
        software["environment"] = alike["software"]["environment"] | changed["software"]["environment"]
    after = folder("after", [110.0, 111.0], **alike | changed | {"software": software})
    first = ran(0, "compare", before, after).out.splitlines()[0]
    assert first == (f"B differs from A in: {told}" if told else "B and A differ in no setting")


def test_compare_shows_mfu_in_percent(folder, ran):
    one, other = folder("one", [1.0]), folder("other", [2.0])
    (row,) = [line for line in ran(0, "compare", one, other).out.splitlines() if line.startswith("MFU")]
    assert row.split("  ")[-1].strip() == "1.0000"
    assert row.count("30.0 %") == 2


def test_summary_groups_repeats_and_needs_a_baseline_to_fail_below(folder, ran):
    runs, slower = folder("runs", [90.0, 92.0, 94.0]), folder("baseline", [100.0, 100.0])
    out = ran(0, "summary", runs).out
    assert "94.0" in out
    assert "92.0" in out
    ran(0, "summary", runs, "--baseline", slower, "--fail-below", "0.9")
    assert "1 of 1 below 0.95" in ran(1, "summary", runs, "--baseline", slower, "--fail-below", "0.95").err
    ran(2, "summary", runs, "--fail-below", "0.95")
