"""MFU of recipes that emulate products or have them in two dtypes."""

import copy

import llmperf_schemas
import pytest
from llmperf.accounting.precisions import weighted_peak, work_shares
from llmperf.files import json_files
from llmperf.reporting.result_sheets import result_sheet
from llmperf.types import Result
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


def codes(document, wanted=("LP321", "LP322", "LP306", "LP301")):
    found = findings("result", json_files.convert(document, Result, "result"))
    return sorted({finding.code for finding in found if finding.code in wanted and ">" not in finding.path})


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
