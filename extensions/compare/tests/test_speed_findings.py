"""`compare` and `summary` for programs that read findings."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest


@pytest.fixture
def folders(folder):
    """Three folders of runs: `fast`, `slow`, and `other` on another contract."""
    fast, slow = (folder(name, [first + n for n in range(4)]) for name, first in (("fast", 110.0), ("slow", 100.0)))
    return {"fast": fast, "slow": slow, "other": folder("other", (50.0, 51.0), contract={"seed": 9})}


@pytest.mark.parametrize("command", ["compare", "summary"])
def test_what_is_too_slow_is_a_failed_test_case(folders, ran, command):
    words = [command, folders["slow"], "--baseline", folders["fast"], "--fail-below", "0.95", "--format", "junit"]
    suite = ElementTree.fromstring(ran(1, *words).out)
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["1", "1", "0", "0"]
    (case,) = suite.findall("testcase")
    assert case.get("name").startswith("B: /" if command == "compare" else "llama_mini, pretraining, default by zero")
    told = "below the limit of 0.95; 4 runs a side show it (95 % interval 0.8850 to 0.9364)"
    assert told in case.find("failure").text
    assert told in case.find("failure").get("message")
    words[-3] = "0.9"
    assert not ElementTree.fromstring(ran(0, *words).out).findall("testcase/failure")


@pytest.mark.parametrize("command", ["compare", "summary"])
@pytest.mark.parametrize("wanted", ["github", "junit", "sarif"])
def test_findings_name_in_what_the_sides_differ(folders, ran, command, wanted):
    for path in Path(folders["slow"]).glob("*/result.json"):
        document = json.loads(path.read_text())
        document["software"]["environment"] |= {"ATEN_CPU_CAPABILITY": "default", "TORCH_EXTENSIONS_DIR": "/tmp/one"}
        path.write_text(json.dumps(document))
    words = [command, folders["slow"], "--baseline", folders["fast"], "--format", wanted]
    for limit in ([], ["--fail-below", "0.95"]):
        out = ran(int(bool(limit)), *words, *limit).out
        assert re.search(r"differs from (A|the baseline) in: ATEN_CPU_CAPABILITY unset -(>|&gt;) default", out)
        assert "TORCH_EXTENSIONS_DIR" not in out


@pytest.mark.parametrize("command", ["compare", "summary"])
def test_sarif_has_rules_levels_and_regions(folders, ran, command):
    words = [command, folders["slow"], "--baseline", folders["fast"], "--fail-below", "0.95", "--format", "sarif"]
    document = json.loads(ran(1, *words).out)
    (run,) = document["runs"]
    assert document["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["below-limit"]
    assert run["tool"]["driver"]["version"]
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("below-limit", "error")
    (place,) = result["locations"]
    assert place["physicalLocation"]["region"] == {"startLine": 1}
    assert place["physicalLocation"]["artifactLocation"]["uri"].endswith("/slow/run-14/result.json")
    assert "logicalLocations" not in place
    (again,) = json.loads(ran(1, *words).out)["runs"][0]["results"]
    assert result["partialFingerprints"] == again["partialFingerprints"] != {}


def test_github_shows_contracts_that_differ_as_an_error(folders, ran):
    out = ran(1, "compare", folders["fast"], folders["other"], "--format", "github").out
    place = f"file={folders['other']}/run-18/result.json,line=1"
    assert f"::error {place},title=contracts-differ::the contracts of B and A differ" in out


@pytest.mark.parametrize("sides", [("fast", "none"), ("none", "fast")])
def test_a_side_with_failed_runs_only_is_a_finding(folders, example, tmp_path, ran, sides, saved):
    failed = json.loads(json.dumps(example)) | {"run_id": "run-failed", "status": "failed"}
    failed["failure"] = {"reason": "exited", "rank": 0, "exception": None, "message": "out of memory", "log_tail": []}
    saved(tmp_path / "none" / "run-failed" / "result.json", failed)
    paths = [str(tmp_path / side) for side in sides]
    suite = ElementTree.fromstring(ran(1, "compare", *paths, "--format", "junit").out)
    assert "no-throughput" in {failure.get("type") for failure in suite.findall("testcase/failure")}
    assert "no-throughput" in ran(1, "compare", *paths, "--format", "github").out
    assert json.loads(ran(1, "compare", *paths, "--format", "sarif").out)["runs"][0]["results"]
    document = json.loads(ran(1, "compare", *paths, "--format", "json").out)
    assert document["comparisons"] == {}
    assert ran(2, "compare", *paths).out == ""


def test_a_summary_does_not_compare_runs_with_themselves(folders, ran):
    error = ran(2, "summary", folders["slow"], "--baseline", folders["slow"]).err
    assert "DIR and --baseline: expected each run on one side, found 4 of the 4" in error


def test_a_limit_in_percent_is_refused_with_the_share(folders, ran):
    assert "did you mean 0.95?" in ran(2, "compare", folders["slow"], folders["fast"], "--fail-below", "95").err


def test_markdown_opens_with_the_answer_and_says_what_it_means(folders, ran):
    out = ran(0, "compare", folders["slow"], folders["fast"], "--format", "markdown").out
    assert out.startswith("# Comparison of A, B\n\n- B is 1.10 times as fast as A (95 % interval 1.07 to 1.13, p")
    assert "| token/p/s | 101.5 | 111.5 | 1.0985 |" in out
    assert "this test does not reject" in out
    runs = [f"{folders['slow']}/run-14", f"{folders['fast']}/run-10"]
    assert "does not reject" not in ran(0, "compare", *runs).out


def test_a_median_of_some_runs_says_of_how_many(folders, ran):
    path = Path(folders["slow"]) / "run-14" / "result.json"
    document = json.loads(path.read_text())
    document["mfu"] = []
    path.write_text(json.dumps(document))
    assert "(3 of 4 runs)" in ran(0, "compare", folders["slow"], folders["fast"]).out
