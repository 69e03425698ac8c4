"""`llmperf validate` for programs: JSON, GitHub, SARIF, JUnit; choosing rules; their pages."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree

import pytest
from llmperf.cli.main import call
from llmperf.reporting.findings import FORMATS, github, junit, sarif, text
from llmperf.types import Finding
from llmperf.validation.catalogue import MAX_VIOLATIONS, Rule, catalogue
from llmperf.validation.check import FileFindings, Validator

HOSTILE = 'a%b\n::error::x\x1b[31m<&"\ud800'


@pytest.fixture
def wrong(example, tmp_path):
    """A result with a wrong throughput and a stand-in for a device."""
    example["metrics"]["tokens_per_second_per_device"] *= 2
    example["hardware"]["simulated"] = True
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(example))
    return str(path)


def run(capsys, *words):
    code = call(["validate", *words])
    return code, capsys.readouterr().out


def test_each_format_tells_the_same_findings(wrong, capsys):
    code, lines = run(capsys, wrong)
    assert code == 1
    told = [line.split(": ", 1)[1].split()[0] for line in lines.splitlines()]
    assert {"LP201", "LP605"} <= set(told)
    (file,) = json.loads(run(capsys, wrong, "--json")[1])
    assert [one["code"] for one in file["findings"]] == told
    (analysis,) = json.loads(run(capsys, wrong, "--format", "sarif")[1])["runs"]
    assert [one["ruleId"] for one in analysis["results"]] == told
    assert {one["id"] for one in analysis["tool"]["driver"]["rules"]} == set(told)
    commands = run(capsys, wrong, "--format", "github")[1].splitlines()
    assert [line.partition("title=")[2].partition("::")[0] for line in commands] == told
    assert commands[0].startswith("::error file=")
    suite = ElementTree.fromstring(run(capsys, wrong, "--format", "junit")[1])
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert "LP201" in suite.find("testcase/failure").text
    assert "LP605" in suite.find("testcase/system-out").text


def test_rules_are_chosen_by_the_beginning_of_their_code(wrong, capsys):
    assert run(capsys, wrong, "--select", "LP605")[0] == 0
    assert "LP605" in run(capsys, wrong, "--select", "LP6")[1]
    code, lines = run(capsys, wrong, "--ignore", "LP2", "--ignore", "LP3", "--ignore", "LP7")
    assert code == 0
    assert "LP201" not in lines


def test_an_unknown_rule_is_refused_with_the_nearest(wrong, capsys):
    for option in ("--select", "--ignore", "--explain"):
        assert call(["validate", option, "LP2081", wrong]) == 2
        assert "did you mean 'LP208'?" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--select", "--ignore", "--explain"])
@pytest.mark.parametrize("code", ["XX1", "", "lp9x"])
def test_what_is_no_code_at_all_is_refused_too(wrong, capsys, option, code):
    assert call(["validate", option, code, wrong]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{option}: unknown rule {code!r}; did you mean 'LP" in err
    assert len(err.splitlines()) == 1


def test_a_code_may_be_in_lower_case(wrong, capsys):
    assert "LP605" in run(capsys, wrong, "--select", "lp6")[1]
    assert "LP605" not in run(capsys, wrong, "--ignore", "lp605")[1]
    assert run(capsys, "--explain", "lp301") == run(capsys, "--explain", "LP301")


@pytest.mark.parametrize("code", [rule.code for rule in catalogue()])
def test_every_rule_is_explained(capsys, code):
    exit_code, page = run(capsys, "--explain", code)
    assert exit_code == 0
    assert page.startswith(f"# {code}: ")


def hostile():
    finding = Finding(code="LP201", severity="error", path=f"/{HOSTILE}", message=HOSTILE)
    return [FileFindings(path=Path(HOSTILE), kind="result", findings=(finding,))]


def test_hostile_text_stays_text_in_every_format():
    for name, render in FORMATS.items():
        shown = render(hostile())
        shown.encode()
        assert "\x1b" not in shown, name
    assert len(github(hostile()).splitlines()) == 1
    assert ElementTree.fromstring(junit(hostile())).find("testcase/failure") is not None
    assert json.loads(sarif(hostile()))["runs"][0]["results"][0]["ruleId"] == "LP201"


@pytest.mark.parametrize("name", ["x:y%41 #.md", "a b/c:d?.md", "名.md", os.fsdecode(b"\xff.md"), "/abs/x y.md"])
def test_a_place_in_sarif_is_a_uri_reference_of_its_file(name):
    file = FileFindings(path=Path(name), findings=(Finding(code="LP201", severity="error", path="", message="x"),))
    (one,) = json.loads(sarif([file]))["runs"][0]["results"]
    uri = one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert re.fullmatch(r"(?:[A-Za-z0-9._~/-]|%[0-9A-F]{2})+", uri)
    assert os.fsdecode(unquote_to_bytes(uri)) == name


@pytest.fixture
def often_wrong(example, tmp_path):
    """A file that breaks one rule 3000 times."""
    rule = Rule(code="LP000", severity="warning", title="", check=lambda _: ((f"/{n}", "wrong") for n in range(3000)))
    return FileFindings(path=tmp_path / "result.json", findings=tuple(rule.findings(example)))


def test_how_many_more_there_are_is_told_in_every_format(often_wrong):
    assert len(often_wrong.findings) == MAX_VIOLATIONS
    assert often_wrong.findings[-1].message == "wrong; and 2980 more of this kind"
    for render in FORMATS.values():
        assert "wrong; and 2980 more of this kind" in render([often_wrong])


def test_what_is_not_shown_is_counted(often_wrong, example, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Validator, "validated", lambda *_: iter([often_wrong]))
    assert run(capsys, "x") == (0, text([often_wrong]))
    assert call(["validate", "x"]) == 0
    assert "1 file: 0 errors, 3000 warnings" in capsys.readouterr().err
    errors = [replace(one, severity="error") for one in often_wrong.findings]
    suite = ElementTree.fromstring(junit([replace(often_wrong, findings=tuple(errors))]))
    assert suite.find("testcase/failure").get("message") == "3000 errors, the first LP000"
