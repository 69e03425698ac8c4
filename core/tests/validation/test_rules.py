"""Every rule has a page, and the page is right: its wrong example breaks the rule, its right one does not."""

import json
import re
from collections import Counter
from pathlib import Path

import llmperf
import llmperf_schemas
import pytest
from llmperf.files import json_files
from llmperf.files.user_files import read_toml
from llmperf.types import Plan, Result
from llmperf.validation.catalogue import open_catalogue
from llmperf.validation.check import findings
from llmperf.validation.core_kinds import named_schema
from llmperf.validation.schema import schema_findings

RULES = {owned.rule.code: owned.rule for owned in open_catalogue().all_rules() if owned.owner.role == "core"}
PAGES = {owned.rule.code: owned.page() for owned in open_catalogue().all_rules() if owned.owner.role == "core"}
TEXTS = read_toml(Path(llmperf.__file__).parent / "data" / "rules.toml")

HERE = ("LP653", "LP904")
"""Rules whose findings depend on what is installed."""
SHOWN = {
    owned.rule.code: (owned.rule.kinds[0], owned.page())
    for owned in open_catalogue().all_rules()
    if owned.rule.check and owned.rule.kinds[0] in ("result", "plan") and owned.rule.code not in HERE
}
"""Kind and page of each rule over results and plans, also of extensions."""


def put(document, values):
    """A document with values at JSON pointers."""
    for pointer, value in values.items():
        *folders, leaf = pointer[1:].split("/")
        target = document
        for folder in folders:
            target = target[int(folder)] if isinstance(target, list) else target[folder]
        if isinstance(target, list) and int(leaf) == len(target):
            target.append(value)
        else:
            target[int(leaf) if isinstance(target, list) else leaf] = value
    return document


def judged(document, kind="result"):
    return findings(kind, json_files.convert(document, {"result": Result, "plan": Plan}[kind], kind))


def blocks(text):
    return re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL)


def test_padded_sequences_have_fewer_tokens_never_more(example):
    told = {}
    for packing, tokens in (("packed", 6143), ("padded", 6143), ("padded", 6145), ("padded", 0)):
        put(example, {"/contract/packing": packing, "/metrics/measured_tokens": tokens})
        told[packing, tokens] = [one.message for one in judged(example) if one.code == "LP202"]
    assert told["packed", 6143] == ["expected 6144 (6 steps x 1024 tokens), found 6143"]
    assert told["padded", 6143] == []
    assert told["padded", 6145] == ["expected 1 to 6144 (6 steps x 1024 tokens, padding not counted), found 6145"]
    assert told["padded", 0]


def test_every_rule_has_a_page_and_every_page_a_rule():
    assert set(TEXTS) == set(RULES)
    assert all(
        PAGES[code].startswith(f"# {code}: {rule.title}\n\nSeverity: {rule.severity}") for code, rule in RULES.items()
    )


@pytest.mark.parametrize("code", SHOWN)
def test_page_shows_what_breaks_the_rule_and_what_does_not(code):
    """For all conventions, ranks, steps and nodes together there is one finding."""
    kind, page = SHOWN[code]
    (_, wrong), (_, line), (_, right) = blocks(page)
    listed = judged(put(llmperf_schemas.example(kind), json.loads(wrong)), kind)
    assert line.strip() in [
        f"{one.path}: {one.code} {one.severity} {one.message}" for one in listed if one.code == code
    ]
    causes = [
        (found.code, *(re.sub(r"\d[\d.,e+]*", "", text) for text in (found.path, found.message))) for found in listed
    ]
    assert [cause for cause, count in Counter(causes).items() if count > 1] == []
    conventions = [(one.code, one.path.split("/")[-1]) for one in listed if one.path.startswith("/mfu/")]
    assert [cause for cause, count in Counter(conventions).items() if count > 1] == []
    again = llmperf_schemas.example(kind)
    assert code not in [one.code for one in judged(put(again, json.loads(right)), kind)]


def test_the_example_result_and_plan_break_no_rule(example):
    assert judged(example) == ()
    assert findings("plan", json_files.convert(llmperf_schemas.example("plan"), Plan, "plan")) == ()


@pytest.mark.parametrize(
    ("code", "values"),
    [
        ("LP101", {"/worker/layout/pipeline_parallel": 2}),
        ("LP102", {"/batch/micro_batch": 4}),
        ("LP103", {"/batch/tokens_per_step": 1}),
        ("LP104", {"/spec/contract/global_batch": 8}),
        ("LP105", {"/worker/layout/sharding_degree": 3}),
        ("LP101", {"/worker/layout/rank_order": ["tensor", "tensor", "data", "pipeline"]}),
        ("LP105", {"/spec/tuning/expert_parallel": 3, "/worker/layout/expert_parallel": 3}),
        ("LP303", {"/flops/per_token/2/flops": 1e9}),
        ("LP303", {"/flops/per_token/1/formula": "6 x everything"}),
        ("LP303", {"/flops/per_token/0/leaves_out": []}),
        ("LP905", {"/plugins/2/name": "acme"}),
        ("LP304", {"/flops/parameters": 7000000000}),
        ("LP603", {"/spec/changes/0/value": 9}),
        ("LP606", {"/spec/contract/precision": "bf16"}),
        ("LP640", {"/spec/framework": {"overlap_comm": True}}),
        ("LP641", {"/spec/case": "my_case"}),
    ],
)
def test_rules_hold_for_plans_too(code, values):
    plan = put(llmperf_schemas.example("plan"), values)
    assert code in [one.code for one in findings("plan", json_files.convert(plan, Plan, "plan"))]


def test_figures_that_overflow_to_infinity_agree_with_nothing(example):
    values = {"/metrics/window_seconds": 1e-310}
    for index in range(5):
        values |= {f"/mfu/{index}/peak_flops_per_second": 1e-305, f"/mfu/{index}/value": 0.99}
    told = {one.code: one for one in judged(put(example, values))}
    assert told["LP301"].more == 4
    assert "LP201" in told


@pytest.mark.parametrize(
    ("values", "path", "message"),
    [
        ({"/mfu/1/formula": "1 x 1"}, "/mfu/1/formula", 'counted from the model, exact), found "1 x 1"'),
        ({"/mfu/0/leaves_out": []}, "/mfu/0/leaves_out", 'found "nothing"'),
    ],
)
def test_formula_and_leaves_out_are_those_of_the_count(example, values, path, message):
    (finding,) = judged(put(example, values))
    assert (finding.code, finding.path) == ("LP303", path)
    assert finding.message.endswith(message)


DEGREES = [
    ({"/parallelism/rank_order": ["data", "tensor"]},
     "LP101 expected each of tensor, context, data, pipeline once, found data, tensor"),
    ({"/tuning/expert_parallel": 3, "/parallelism/expert_parallel": 3},
     "LP105 expected a divisor of data parallel 2, found 3; the nearest is 2"),
    ({"/tuning/sequence_parallel": True, "/parallelism/sequence_parallel": True},
     "LP105 sequence parallelism splits work among tensor-parallel ranks: expected tensor parallel of 2 or more,"
     " found 1; nearest: --set sequence_parallel=false"),
    ({"/tuning/context_parallel": 3, "/tuning/devices": 3},
     "LP105 a sequence has 256 tokens, which context parallel 3 does not divide; the nearest that does is 2"),
    ({"/tuning/expert_parallel": 2**53 - 1}, "LP101 expected at most 1048576 ranks, found 9007199254740991"),
    ({"/tuning/tensor_parallel": 3},
     "LP101 tensor parallel 3 x pipeline parallel 1 = 3 does not divide 1 x 2 = 2 ranks;"
     " the nearest number of ranks that works is 3"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "finding"), DEGREES)
def test_degrees_are_checked_by_the_arithmetic_of_planning(example, values, finding):
    found = [f"{one.path}: {one.code} {one.message}" for one in judged(put(example, values))]
    assert f"{next(iter(values))}: {finding}" in found


UNCHANGED = {"path": "contract.seed", "case_value": 7, "value": 0, "origin": "--set"}
AGAIN = {"path": "contract.steps", "case_value": 30, "value": 8, "origin": "--set"}
CHANGES = [
    ("/fix_hp/0/case_value", 99, "", 'expected 30 ("contract.steps" in case default), found 99'),
    ("/fix_hp/1", UNCHANGED, "/path", 'expected what differs from case default, found "contract.seed", which does not'),
    ("/fix_hp/1", AGAIN, "/path", 'expected one entry for each path, found "contract.steps" again'),
]


@pytest.mark.parametrize(("path", "value", "key", "message"), CHANGES)
def test_fix_hp_is_what_differs_from_the_case(example, path, value, key, message):
    told = [(one.path, one.message) for one in judged(put(example, {path: value})) if one.code == "LP640"]
    assert told == [(path + key, message)]


def test_a_setting_that_differs_from_the_case_has_an_entry_in_fix_hp(example):
    put(example, {"/framework": {"a\nb": True}})
    told = [(one.path, one.message) for one in judged(example) if one.code == "LP640"]
    assert told == [
        ("/fix_hp", 'expected an entry for "framework.a\\nb" (null in case default, true here), found none')
    ]


def test_a_result_cannot_be_passed_off_as_imported(example):
    """Published tables are documents of their own kind; a result is held to its plan and records always."""
    example["provenance"] = "imported"
    assert [one.code for one in schema_findings(named_schema("result"), example)] == ["LP014"]


def test_a_failed_run_is_held_to_what_it_did(example):
    failure = {"rank": 1, "reason": "killed", "exception": None, "message": "SIGKILL", "log_tail": []}
    example |= {"status": "failed", "failure": failure, "loss_curve": example["loss_curve"][:3]}
    unknown = ("window_seconds", "tokens_per_second_per_device", "tokens_per_second", "step_seconds", "energy_joules",
               "joules_per_token", "tokens_per_joule")  # fmt: skip
    last = example["loss_curve"][2]["loss"]
    example["metrics"] |= {**dict.fromkeys(unknown), "measured_steps": 1, "measured_tokens": 1024, "final_loss": last}
    for mfu in example["mfu"]:
        mfu |= {"value": None, "of_measured_peak": None}
    example["sections"] = {}
    assert judged(example) == ()
