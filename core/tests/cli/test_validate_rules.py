"""`llmperf validate`: choosing rules, their pages, and the lines of findings."""

import pytest
from llmperf.validation.catalogue import open_catalogue
from llmperf.validation.reading import lines_of


def test_rules_are_chosen_by_the_beginning_of_their_code_in_either_case(wrong, ran):
    ran(0, "validate", wrong, "--select", "LP605")
    for code in ("LP6", "lp6"):
        assert "LP605" in ran(0, "validate", wrong, "--select", code).out
    lines = ran(0, "validate", wrong, "--ignore", "LP2", "--ignore", "LP3", "--ignore", "LP7", "--ignore", "lp605").out
    assert not any(code in lines for code in ("LP201", "LP605"))
    assert ran(0, "validate", "--explain", "lp301") == ran(0, "validate", "--explain", "LP301")


@pytest.mark.parametrize("option", ["--select", "--ignore", "--explain"])
def test_an_unknown_rule_is_refused_with_the_nearest(wrong, ran, option):
    every, near = "`llmperf validate --rules` lists all rules", "did you mean 'LP3"
    for code, advice in (("LP3081", f"{near}08'?"), ("XX1", every), ("", every), ("lp30x", near)):
        out, err = ran(2, "validate", option, code, wrong)
        assert (out, err.count("\n")) == ("", 1)
        assert f"{option}: unknown rule {code!r}; {advice}" in err


def test_every_rule_is_explained(ran):
    catalogue = open_catalogue()
    for code in (owned.rule.code for owned in catalogue.all_rules()):
        page = catalogue.page(code, "--explain")
        assert page.startswith(f"# {code}: ")
    assert ran(0, "validate", "--explain", code).out == page


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
