"""What is said of documents that do not fit their schema."""

import llmperf_schemas
import pytest
from llmperf.validation.catalogue import counted
from llmperf.validation.core_kinds import named_schema
from llmperf.validation.schema import MAX_FINDINGS, record_findings, schema_findings


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
