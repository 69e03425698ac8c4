"""`llmperf validate` on files and folders, good, wrong and hostile."""

import json
import os
from pathlib import Path

import llmperf
import llmperf_schemas
import pytest
from llmperf.cli.main import call
from llmperf.validation import document_files
from llmperf.validation.catalogue import counted
from llmperf.validation.check import validate_path
from llmperf.validation.core_kinds import named_schema
from llmperf.validation.schema import MAX_FINDINGS, record_findings, schema_findings


def codes(path):
    return [finding.code for file in validate_path(path) for finding in file.findings]


def test_a_folder_is_searched_and_other_files_are_passed_over(tmp_path, ran, saved):
    saved(tmp_path / "published" / "row.json", llmperf_schemas.example("result"))
    saved(tmp_path / "published" / "settings.json", {"zero_optimization": {"stage": 1}})
    saved(tmp_path / "plans" / "plan.json", llmperf_schemas.example("plan"))
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "mine.toml").write_text(CASE)
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "dialogues.jsonl").write_text('{"text": "not ours"}\n')
    saved(tmp_path / "result.schema.json", llmperf_schemas.load("result"))
    saved(tmp_path / ".cache" / "result.json", {"passed": "over"})
    told = [(file.path.name, file.kind, [one.code for one in file.findings]) for file in validate_path(tmp_path)]
    assert told == [("mine.toml", "case", []), ("plan.json", "plan", []), ("row.json", "result", ["LP705"])]
    assert ran(0, "validate", tmp_path).err == "3 files: 0 errors, 0 warnings (ruleset 9)\n"


CASE = Path(__file__).with_name("case.toml").read_text()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("seq_len = 64", "seqlen = 64", "/contract/seqlen: LP010 error unknown key"),
        ("lr = 1e-3", "lr = inf", '/contract/optimizer/lr: LP012 error expected number, found "inf"'),
        ("steps = 10", "steps = 2026-01-01", '/contract/steps: LP012 error expected integer, found "2026-01-01"'),
        ('title = "Mine"', 'title = "Mine"\nname = "other"', '/name: LP015 error expected "mine"'),
    ],
)
def test_a_case_is_checked(tmp_path, ran, old, new, expected):
    path = tmp_path / "cases" / "mine.toml"
    path.parent.mkdir()
    path.write_text(CASE.replace(old, new))
    assert f"{path}:{expected}" in ran(1, "validate", path).out


def test_a_model_is_checked(tmp_path, ran, saved):
    path = saved(tmp_path / "models" / "mine.toml", "")
    path.write_text('title = "Mine"\nvocab_size = -1\n')
    out = ran(1, "validate", path).out
    assert "/vocab_size: LP013 error expected at least 1, found -1" in out
    assert '/layers: LP011 error missing key "layers": Transformer blocks.' in out


def test_json_for_programs(tmp_path, example, ran, saved):
    example["variant"] = False
    path = saved(tmp_path / "result.json", example)
    (file,) = json.loads(ran(1, "validate", "--json", path).out)
    assert (file["path"], file["kind"]) == (str(path), "result")
    assert [(one["code"], one["severity"], one["path"]) for one in file["findings"]] == [
        ("LP601", "error", "/variant"),
        ("LP705", "note", "/files"),
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x00\x01\xff\xfe", "not UTF-8"),
        (b"", "not JSON"),
        (b'{"a": 1', "not JSON"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": -Infinity}', "-Infinity is not JSON"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": ' + b"9" * 100_000 + b"}", "integer of 100000 digits"),
        (b'{"a": 1}{"b": 2}', "not JSON"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "nested deeper than 64 levels"),
    ],
)
def test_what_cannot_be_read_is_said_on_one_line(tmp_path, ran, content, reason):
    path = tmp_path / "result.json"
    path.write_bytes(content)
    (line,) = ran(2, "validate", path).out.splitlines()
    assert line.startswith(f"{path}: LP001 error ")
    assert reason in line


def test_missing_empty_and_foreign(tmp_path, ran, saved):
    assert call(["validate", str(tmp_path / "none.json")]) == 2
    assert call(["validate", str(tmp_path)]) == 2
    out = ran(2, "validate", str(saved(tmp_path / "x.json", {"a": 1}))).out
    assert "no such file or folder" in out
    assert "no document in this folder; expected a result, " in out
    assert "expected a result (.json), " in out
    assert "records (.jsonl)" in out


def test_broken_toml_is_told_as_such_wherever_it_lies(tmp_path, ran):
    (tmp_path / "mine.toml").write_text("x = = 1\n")
    (tmp_path / "other.toml").write_text("x = 1\n")
    out, err = ran(2, "validate", tmp_path / "mine.toml", tmp_path / "other.toml")
    assert f"{tmp_path}/mine.toml: LP001 error not valid TOML" in out
    assert f"{tmp_path}/other.toml: LP001 error expected " in out
    assert err == "2 files: 2 errors, 0 warnings (ruleset 9)\n"


def test_too_large_is_not_read(tmp_path):
    path = tmp_path / "result.json"
    with path.open("wb") as file:
        file.truncate(65 * 2**20)
    (file,) = validate_path(path)
    assert file.unreadable
    assert "larger than the 64 MiB" in file.findings[0].message


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(document_files, "MAX_FILES", 3)
    for number in range(5):
        (tmp_path / f"{number}.txt").touch()
    assert codes(tmp_path) == ["LP001"]


def test_links_and_pipes_are_not_followed(tmp_path, example, saved):
    outside = saved(tmp_path / "outside" / "result.json", {"secret": True})
    inside = tmp_path / "inside"
    saved(inside / "result.json", example)
    (inside / "linked").symlink_to(outside.parent)
    (inside / "plan.json").symlink_to(outside)
    os.mkfifo(inside / "memory.jsonl")
    assert [file.path for file in validate_path(inside)] == [inside / "result.json"]
    assert set(codes(inside / "result.json")) == {"LP702"}
    assert codes(inside / "memory.jsonl") == ["LP001"]


@pytest.mark.parametrize("again", ['"variant": false, ', '"variant" : false, ', '"v\\u0061riant"\n:\tfalse,'])
def test_a_key_that_stands_twice(tmp_path, example, again):
    text = json.dumps(example).replace('"variant": true', f'{again}"variant": true')
    path = tmp_path / "result.json"
    path.write_text(text)
    assert codes(path) == ["LP002"]


def test_text_that_looks_like_keys_is_no_repeated_key(tmp_path, example, saved):
    example["notes"] = ['"variant": "variant" : true']
    assert codes(saved(tmp_path / "result.json", example)) == codes(
        saved(tmp_path / "result.json", example | {"notes": []})
    )


def test_a_terminal_cannot_be_taken_over(tmp_path, example, ran, saved):
    example["contract"]["precision"] = "\x1b[2J\nresult.json:: all is well"
    example["\x1b]0;owned\x07\u202e"] = 1
    path = saved(tmp_path / "result.json", example)
    out = ran(1, "validate", path).out
    assert len(out.splitlines()) == 2
    assert all(line.isprintable() for line in out.splitlines())


@pytest.mark.parametrize("place", ["title", "\ud800", "notes"])
def test_half_a_surrogate_pair_is_refused(tmp_path, example, ran, place, saved):
    example[place] = ["a \udfff"] if place == "notes" else "a \udfff"
    path = saved(tmp_path / "结果" / "result.json", example)
    told = ran(2, "validate", path).out
    assert "结果" in told
    assert "is half a surrogate pair" in told
    assert "is half a surrogate pair" in ran(2, "report", path).err


def test_a_whole_surrogate_pair_is_a_character(tmp_path, example, saved):
    example["title"] = "\U0001f600"
    path = saved(tmp_path / "result.json", example)
    assert "\\ud83d" in path.read_text()
    assert call(["validate", str(path)]) == 0
    assert call(["report", str(path), "--format", "json"]) == 0


def test_a_whole_number_with_a_point_is_of_the_wrong_type(tmp_path, example, ran, saved):
    example["parameters"] = float(example["parameters"])
    path = saved(tmp_path / "result.json", example)
    assert f"{path}:/parameters: LP012 error expected integer, found" in ran(1, "validate", path).out
    assert "result.json:/parameters: expected integer, found" in ran(2, "report", path).err


def test_records_are_checked_line_by_line(tmp_path, ran):
    path = tmp_path / "rank-00000.jsonl"
    good = json.dumps(llmperf_schemas.example("record"))
    path.write_text(good + "\n" + good.replace('"rank": 0', '"rank": -1') + "\n" + good[:20])
    assert ran(1, "validate", path).out.splitlines() == [
        f"{path}:/1/rank: LP013 error expected at least 0, found -1",
        f"{path}:/2: LP003 warning the last line is cut off",
    ]


def test_a_broken_line_among_records_is_unreadable(tmp_path):
    path = tmp_path / "rank-00000.jsonl"
    path.write_text("{]\n" + json.dumps(llmperf_schemas.example("record")) + "\n")
    (file,) = validate_path(path)
    assert file.unreadable
    assert file.findings[0].message.startswith("line 1: not JSON")


def test_the_shipped_cases_and_models_are_valid():
    files = validate_path(Path(llmperf.__file__).parent / "data")
    assert {file.kind for file in files} == {"case", "model"}
    assert [finding for file in files for finding in file.findings] == []


def test_of_many_wrong_records_it_is_told_where_the_judging_ended(tmp_path, capsys):
    path = tmp_path / "rank-00000.jsonl"
    path.write_text('{"kind": "stepp"}\n' * 80)
    found = validate_path(path)[0].findings
    assert len(found) == 50
    assert found[-1].message.endswith("; the lines after this one are not judged")


def test_a_result_that_names_its_schema_late_is_found(tmp_path, example, ran):
    name = example.pop("schema")
    (tmp_path / "late.json").write_text(json.dumps({**example, "schema": name}))
    assert (tmp_path / "late.json").stat().st_size > 4096
    assert "late.json:/files: LP705" in ran(0, "validate", tmp_path).out


def test_a_warning_of_many_results_is_printed_once(tmp_path, ran, saved):
    for name in "abcd":
        saved(tmp_path / f"{name}.json", llmperf_schemas.example("result") | {"run_id": name})
    out, err = ran(0, "validate", tmp_path)
    assert [line.partition(": ")[0] for line in out.splitlines() if "LP631" in line] == [
        f"{tmp_path}/b.json", "in 2 more files"
    ]  # fmt: skip
    assert err == "4 files: 0 errors, 3 warnings (ruleset 9)\n"
    assert ran(0, "validate", tmp_path, "--format", "json").out.count("LP631") == 3


def schema_of(name, document):
    return record_findings(document) if name == "record" else schema_findings(named_schema(name), document)


def told(name, document):
    return [f"{one.path}: {one.code} {one.message}" for one in schema_of(name, document)]


def test_the_examples_fit():
    for name in llmperf_schemas.names():
        assert schema_of(name, llmperf_schemas.example(name)) == []


def test_unknown_key_offers_the_nearest(example):
    example["contract"]["seqlen"] = example["contract"].pop("seq_len")
    assert told("result", example) == [
        "/contract/seq_len: LP011 missing key \"seq_len\": Tokens in one sequence.",
        "/contract/seqlen: LP010 unknown key \"seqlen\"; did you mean \"seq_len\"?",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (("tuning", "micro_batch"), "2", '/tuning/micro_batch: LP012 expected integer, found "2"'),
        (("tuning", "micro_batch"), 0, "/tuning/micro_batch: LP013 expected at least 1, found 0"),
        (("tuning", "micro_batch"), 10**30, f"/tuning/micro_batch: LP013 expected at most {2**53 - 1}, found {10**30}"),
        (("tuning", "micro_batch"), True, "/tuning/micro_batch: LP012 expected integer, found true"),
        (("status",), "ok", '/status: LP014 found "ok"; expected one of: "complete", "failed", "aborted"'),
        (("contract", "precision"), "fp61", '/contract/precision: LP014 found "fp61"; did you mean "fp16"?'),
        (("metrics", "first_loss"), [], "/metrics/first_loss: LP012 expected number or null, found an array of 0"),
        (("schema",), "llmperf/result/2", '/schema: LP014 expected "llmperf/result/1", found "llmperf/result/2"'),
        (("failure",), "no", '/failure: LP012 expected an object or null, found "no"'),
        (("mfu",), {}, "/mfu: LP012 expected array, found an object of 0 keys"),
    ],
)  # fmt: skip
def test_one_line_says_where_what_was_expected_and_what_was_found(example, path, value, line):
    target = example
    for part in path[:-1]:
        target = target[part]
    target[path[-1]] = value
    assert told("result", example) == [line]


def test_inside_of_an_optional_object_is_judged(example):
    example["failure"] = {"rank": None, "reason": "vanished", "exception": None, "message": "x"}
    assert [line.split()[1] for line in told("result", example)] == ["LP011", "LP014"]


def test_a_record_is_held_against_its_own_kind():
    assert told("record", {"kind": "phase", "rank": 0, "phase": "done", "at": 1.0, "monotonic": 1.0}) == []
    (line,) = told("record", {"kind": "phase", "rank": 0, "phase": "idle", "at": 1.0, "monotonic": 1.0})
    assert line.startswith('/phase: LP014 found "idle"; expected one of: "starting"')
    assert told("record", {"kind": "stepp"}) == ['/kind: LP014 found "stepp"; did you mean "step"?']
    assert told("record", [1]) == [": LP012 expected an object, found an array of 1"]
    assert [line.split()[1] for line in told("record", {"rank": 0})] == ["LP011"]


def test_pointers_are_escaped_and_long_documents_cut_short(example):
    example["a/b~c"] = 1
    assert told("result", example) == ['/a~1b~0c: LP010 unknown key "a/b~c"']
    example |= {f"key{number}": number for number in range(200)}
    found = schema_of("result", example)
    assert len(found) == MAX_FINDINGS
    assert found[-1].message.endswith("; and 151 more in this document")
    assert counted(found, "error") == 201
    example |= {f"key{number}": number for number in range(2000)}
    last = " more in this document; only the first 1000 keys of each object of this document were checked"
    assert schema_of("result", example)[-1].message.endswith(last)
