"""What MFU rests on: recipes that emulate products or have them in two dtypes, nominal sizes, who counted FLOPs."""

import copy
from dataclasses import replace

import llmperf_schemas
import pytest
from llmperf.accounting.flops import count_flops
from llmperf.accounting.precisions import weighted_peak, work_shares
from llmperf.cases.library import library
from llmperf.files import json_files
from llmperf.reporting.result_sheets import result_sheet
from llmperf.types import Plan, Result, Workload
from llmperf.validation.check import findings

PEAKS = {"fp8": (2e10, "datasheet"), "bf16": (1e10, "datasheet")}


@pytest.fixture
def mixed():
    """The example result, by fp8_rowwise on a device of a vendor that is not installed."""
    document = llmperf_schemas.example("result")
    document["contract"]["precision"] = "fp8_rowwise"
    document["hardware"]["vendor"] = "acme"
    document["measured_peak"] = None
    spec = json_files.convert(document, Result, "result")
    throughput = document["metrics"]["tokens_per_second_per_device"]
    for mfu in document["mfu"]:
        peak = weighted_peak(work_shares(spec.model, spec.contract, mfu["convention"]), PEAKS)
        mfu |= {"peak_dtype": "fp8", "peak_flops_per_second": 2e10, "of_measured_peak": None}
        mfu["value"] = throughput * mfu["flops_per_token"] / 2e10
        mfu["weighted_peak"] = json_files.builtins(peak)
        mfu["of_weighted_peak"] = throughput * mfu["flops_per_token"] / peak.flops_per_second
    return document


def judged(document):
    return findings("result", json_files.convert(document, Result, "result"))


def codes(document, wanted=("LP321", "LP322", "LP306", "LP301")):
    return sorted({finding.code for finding in judged(document) if finding.code in wanted and ">" not in finding.path})


def test_both_mfus_of_a_mixed_recipe_are_recomputed(mixed):
    throughput = mixed["metrics"]["tokens_per_second_per_device"]
    assert throughput * mixed["mfu"][0]["flops_per_token"] > 1e10  # beyond these peaks, which LP322 says too
    for mfu in mixed["mfu"]:
        for part in mfu["weighted_peak"]["parts"]:
            part["peak_flops_per_second"] *= 100
        mfu["weighted_peak"]["flops_per_second"] *= 100
        for name in ("value", "of_weighted_peak"):
            mfu[name] /= 100
        mfu["peak_flops_per_second"] *= 100
    assert codes(mixed) == []
    for change in (
        lambda mfu: mfu.update(of_weighted_peak=0.5),
        lambda mfu: mfu.update(of_weighted_peak=None),
        lambda mfu: mfu["weighted_peak"].update(flops_per_second=1e12),
        lambda mfu: mfu["weighted_peak"]["parts"][0].update(share=0.5),
        lambda mfu: mfu["weighted_peak"]["parts"][0].update(peak_flops_per_second=3e12),
        lambda mfu: mfu["weighted_peak"].update(parts=mfu["weighted_peak"]["parts"][:1]),
    ):
        wrong = copy.deepcopy(mixed)
        change(wrong["mfu"][1])
        assert codes(wrong) == ["LP322"]


def test_the_report_names_both_peaks(mixed):
    sections = list(result_sheet(json_files.convert(mixed, Result, "result")).sections())
    text = {row.key: row.text for part in sections if part.card for row in part.rows}["mfu_of_weighted_peak"]
    (table,) = (part for part in sections if part.key == "mfu")
    assert {"peak, FLOP/s", "work-weighted peak, FLOP/s"} <= {row.label for row in table.records[0]}
    assert "FLOP/s a rank: fp8 " in text
    assert ", bf16 " in text


def test_recipes_in_one_dtype_have_no_weighted_peak(mixed):
    mixed["contract"]["precision"] = "bf16"
    assert "LP322" in codes(mixed)


def test_an_emulated_run_has_no_peak_and_no_mfu(mixed):
    mixed["emulated"] = mixed["tuning"]["emulate_precision"] = True
    assert "LP321" in codes(mixed)
    for mfu in mixed["mfu"]:
        mfu |= dict.fromkeys(("peak_flops_per_second", "value", "weighted_peak", "of_weighted_peak"))
    assert codes(mixed) == []
    mixed["emulated"] = False
    assert codes(mixed) == ["LP321"]


def test_nominal_figures_of_shipped_models_are_about_those_counted():
    plan, models = json_files.convert(llmperf_schemas.example("plan"), Plan, "plan"), library()
    for name in models.paths("models"):
        model = models.model(name)
        counted = replace(
            plan, spec=replace(plan.spec, model=model), flops=count_flops(model, Workload(seq_len=model.max_positions))
        )
        assert "LP323" not in [finding.code for finding in findings("plan", counted)], name


EXTENSION = {"name": "acme_moe", "role": "extension", "distribution": "llmperf-acme-moe", "version": "1.0"}


def counted_by(example, name, *plugins):
    for mfu in example["mfu"]:
        mfu["counted_by"] = name
    example["plugins"] += plugins
    return example


@pytest.mark.parametrize("name", ["zero", "cpu", "acme_moe", "../../x", "a\x1b[31m", ""])
def test_flops_counted_by_no_extension_of_the_run(example, name):
    found = judged(counted_by(example, name))
    assert [(one.code, one.path) for one in found if one.code != "LP668"] == [("LP316", "/mfu/0/counted_by")]
    assert "\x1b" not in found[0].message


def test_flops_counted_by_an_extension_that_is_not_installed(example):
    counted_by(example, "acme_moe", EXTENSION)
    assert [one.code for one in judged(example)] == ["LP315"]
    example["mfu"][0] |= {"flops_per_token": 6e7, "value": 0.6, "of_measured_peak": 0.64}
    assert [one.code for one in judged(example)] == ["LP315", "LP317"]


def test_an_extension_counts_nominal_flops_by_the_active_parameters_of_a_mixture(example):
    counted_by(example, "acme_moe", EXTENSION)
    example["model"]["mixture"] = {"experts": 4, "top_k": 1, "expert_width": 8}
    example["model"]["nominal_active_parameters"] = 2_500_000
    assert "LP317" in [one.code for one in judged(example)]
    example["mfu"][0]["flops_per_token"] = 1.5e7
    assert "LP317" not in [one.code for one in judged(example)]


def test_flops_counted_by_an_installed_extension_that_does_not_count_the_model(example):
    counted_by(example, "published", {**EXTENSION, "name": "published"})
    assert [one.message for one in judged(example) if one.severity == "error"] == [
        'expected "core", which counts this model here, found "published", which is installed and does not'
    ]


def test_conventions_are_counted_by_one_name(example):
    example["plugins"].append(EXTENSION)
    example["mfu"][3]["counted_by"] = "acme_moe"
    assert [(one.code, one.path) for one in judged(example)] == [("LP316", "/mfu/3/counted_by")]
