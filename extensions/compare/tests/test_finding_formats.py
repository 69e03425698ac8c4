"""`llmperf validate` for programs: JSON, GitHub, SARIF, JUnit; hostile text."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree

import pytest
from llmperf.cli.validate import as_json, text
from llmperf.types import FileFindings, Finding, Rule
from llmperf.validation.catalogue import MAX_VIOLATIONS
from llmperf.validation.check import Validator
from llmperf.validation.violations import with_rest
from llmperf_compare.finding_formats import github, junit, sarif
from llmperf_compare.finding_lines import lines_of

RENDERED = (lambda files: "".join(map(text, files)), as_json, github, sarif, junit)
HOSTILE = 'a%b\n::error::x\x1b[31m<&"\ud800'


def test_each_format_tells_the_same_findings(wrong, ran):
    told = [line.split(": ", 1)[1].split()[0] for line in ran(1, "validate", wrong).out.splitlines()]
    assert {"LP201", "LP605"} <= set(told)
    (file,) = json.loads(ran(1, "validate", wrong, "--json").out)
    assert [one["code"] for one in file["findings"]] == told
    (analysis,) = json.loads(ran(1, "validate", wrong, "--format", "sarif").out)["runs"]
    assert [one["ruleId"] for one in analysis["results"]] == told
    assert {one["id"] for one in analysis["tool"]["driver"]["rules"]} == set(told)
    commands = ran(1, "validate", wrong, "--format", "github").out.splitlines()
    assert [line.partition("title=")[2].partition("::")[0] for line in commands] == told
    assert commands[0].startswith("::error file=")
    suite = ElementTree.fromstring(ran(1, "validate", wrong, "--format", "junit").out)
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert "LP201" in suite.find("testcase/failure").text
    assert "LP605" in suite.find("testcase/system-out").text


def hostile():
    finding = Finding(code="LP201", severity="error", path=f"/{HOSTILE}", message=HOSTILE)
    return [FileFindings(path=Path(HOSTILE), kind="result", findings=(finding,))]


def test_hostile_text_stays_text_in_every_format():
    for render in RENDERED:
        assert b"\x1b" not in render(hostile()).encode(), render
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
def often_wrong(tmp_path):
    """A file that breaks one rule 3000 times."""
    rule = Rule(code="LP000", severity="warning", title="")
    findings = [rule.finding(f"/{number}", "wrong") for number in range(3000)]
    listed = with_rest(findings[:MAX_VIOLATIONS], len(findings) - MAX_VIOLATIONS)
    return FileFindings(path=tmp_path / "result.json", findings=tuple(listed))


def test_how_many_more_there_are_is_told_in_every_format(often_wrong):
    assert len(often_wrong.findings) == MAX_VIOLATIONS
    assert often_wrong.findings[-1].message == "wrong; and 2980 more of this kind"
    for render in RENDERED:
        assert "wrong; and 2980 more of this kind" in render([often_wrong])


def test_what_is_not_shown_is_counted(often_wrong, example, tmp_path, monkeypatch, ran):
    monkeypatch.setattr(Validator, "validated", lambda *_: iter([often_wrong]))
    out, err = ran(0, "validate", "x")
    assert (out, err.startswith("1 file: 0 errors, 3000 warnings")) == (text(often_wrong), True)
    errors = [replace(one, severity="error") for one in often_wrong.findings]
    suite = ElementTree.fromstring(junit([replace(often_wrong, findings=tuple(errors))]))
    assert suite.find("testcase/failure").get("message") == "3000 errors, the first LP000: wrong"


def test_findings_in_json_have_their_lines(wrong, ran):
    lines = Path(wrong).read_text().splitlines()
    (analysis,) = json.loads(ran(1, "validate", wrong, "--format", "sarif").out)["runs"]
    for one in analysis["results"]:
        (location,) = one["locations"]
        line = location["physicalLocation"]["region"]["startLine"]
        name = location["logicalLocations"][0]["fullyQualifiedName"].rpartition("/")[2]
        assert name.isdecimal() or f'"{name}"' in lines[line - 1]
    assert re.search(r"wrong\.json,line=\d+,", ran(1, "validate", wrong, "--format", "github").out)


def test_sarif_has_what_code_scanning_services_require(wrong, tmp_path, ran):
    """SARIF 2.1.0 (OASIS), 3.13, 3.14, 3.18, 3.27; GitHub takes no result whose place has no region."""
    document = json.loads(ran(2, "validate", wrong, str(tmp_path / "none.json"), "--format", "sarif").out)
    assert (set(document), document["version"]) == ({"$schema", "version", "runs"}, "2.1.0")
    (analysis,) = document["runs"]
    assert set(analysis) == {"tool", "results"}
    driver = analysis["tool"]["driver"]
    assert set(driver) <= {"name", "version", "informationUri", "rules"}
    known = [rule["id"] for rule in driver["rules"]]
    assert len(known) == len(set(known))
    for rule in driver["rules"]:
        assert set(rule) == {"id", "shortDescription", "defaultConfiguration"}
        assert rule["defaultConfiguration"]["level"] in ("note", "warning", "error")
    assert any(one["ruleId"] == "LP001" for one in analysis["results"])
    for one in analysis["results"]:
        assert set(one) == {"ruleId", "level", "message", "locations", "partialFingerprints"}
        assert one["message"]["text"]
        (location,) = one["locations"]
        assert set(location) - {"logicalLocations"} == {"physicalLocation"}
        assert all(named["fullyQualifiedName"] for named in location.get("logicalLocations", ()))
        assert set(location["physicalLocation"]) == {"artifactLocation", "region"}
        assert location["physicalLocation"]["region"]["startLine"] >= 1


def test_junit_has_what_jenkins_and_maven_require(wrong, example, tmp_path, ran):
    """Attributes and order of elements in Jenkins' junit-10.xsd and Maven's surefire-test-report.xsd."""
    (tmp_path / "broken.json").write_text("{")
    suite = ElementTree.fromstring(ran(2, "validate", wrong, str(tmp_path / "broken.json"), "--format", "junit").out)
    assert set(suite.attrib) == {"name", "tests", "failures", "errors", "skipped", "time"}
    assert suite.tag == "testsuite"
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "2", "failures": "1", "errors": "1", "skipped": "0"}
    order = ["failure", "error", "system-out"]
    for case in suite:
        assert (case.tag, set(case.attrib)) == ("testcase", {"name", "classname", "time"})
        assert re.fullmatch(r"\d+\.\d{3}", case.get("time"))
        tags = [child.tag for child in case]
        assert tags == sorted(tags, key=order.index)
        assert all(set(child.attrib) == {"message", "type"} for child in case if child.tag != "system-out")
    assert [child.tag for case in suite for child in case if child.tag != "system-out"] == ["failure", "error"]
    assert suite.find("testcase/error").get("type") == "LP001"


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("x.json", '{\n "a": [1,\n  {"b\\"/~": 2,\n "c": {}}]}', {"": 1, "/a": 2, "/a/0": 2, '/a/1/b"~1~0': 3}),
        ("x.json", '{\n "a": {\n  "b": 1}}', {"/a/b": 3, "/a/missing": 2, "/none": 1}),
        ("x.json", '{"a": 1,\n "a": 2, "n": -1.5e3,\n\n "t": true}', {"/a": 1, "/n": 2, "/t": 4}),
        ("x.json", '{"a": [[],\n [],\n {"b": ["c,}"\n, 1]}]}', {"/a/1": 2, "/a/2/b/1": 4}),
        ("x.jsonl", "{}\n{}\n", {"/1/step": 2, "": None}),
        ("x.toml", 'name = "x"\n[contract]\nsteps = 1\n[[more]]\n', {"/contract/steps": 3, "/more/0/x": 4, "/name": 1}),
    ],
)
def test_the_line_of_a_pointer(tmp_path, name, text, lines):
    (tmp_path / name).write_text(text)
    found = lines_of(tmp_path / name, lines)
    assert {pointer: found.get(pointer) for pointer in lines} == lines
    assert lines_of(tmp_path / "none.json", ["/a"]) == {}
