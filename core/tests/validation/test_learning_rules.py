"""What the loss curve of a run may be: curves of real runs, and those that no training gives."""

import copy
import math
import random

import llmperf_schemas
import pytest
from llmperf.accounting.precisions import weighted_peak, work_shares
from llmperf.files import json_files
from llmperf.files.json_files import convert
from llmperf.reporting.result_sheets import result_sheet
from llmperf.types import Result
from llmperf.validation.check import findings

CODES = {"LP506", "LP507", "LP509", "LP510", "LP512", "LP513"}
GUESS = math.log(4096)


def told(example, losses, *, lr=1e-3, tokens=1024, **contract):
    example["loss_curve"] = [
        {"step": step, "loss": loss, "nonfinite": None, "grad_norm": None} for step, loss in enumerate(losses, start=1)
    ]
    example["metrics"] |= {"first_loss": losses[0], "final_loss": losses[-1]}
    example["contract"] |= {"steps": len(losses), **contract}
    example["contract"]["optimizer"]["lr"] = lr
    example["batch"]["tokens_per_step"] = tokens
    return {one.code for one in findings("result", convert(example, Result, "result"))} & CODES


def scattered(level, steps, spread=0.01):
    draws = random.Random(steps)
    return [level + draws.gauss(0, spread) for _ in range(steps)]


@pytest.mark.parametrize(
    ("losses", "settings"),
    [
        ([8.362, 8.383, 8.331, 8.331, 8.310, 8.349, 8.216, 8.229, 8.210, 8.168, 8.129, 8.292], {}),
        ([8.362, 8.371, 8.366], {}),
        ([8.362], {}),
        (scattered(8.369, 10), {"lr": 1.5e-4}),  # a warm-up of the learning rate, not through after ten steps
        (scattered(8.369, 400), {"lr": 1e-9}),
        (scattered(8.369, 100), {"lr": 1e-4, "lora": {"rank": 8}}),  # B begins at 0
        (scattered(GUESS, 40, 6e-4), {"lr": 1e-9, "tokens": 4_194_304}),
        ([8.37, 8.36, 8.36, 8.36, 8.35, 8.35, 8.35, 8.34], {"lr": 1e-5}),  # as a script prints them
        ([8.37, 8.9, 8.6, 8.3, 8.2, 8.1, 8.0, 7.9], {}),
        ([2.31, 2.30, 2.33, 2.29, 2.28], {"lora": {"rank": 8}}),
    ],
)
def test_a_curve_of_a_real_run_is_no_finding(example, losses, settings):
    assert told(example, losses, **settings) == set()


@pytest.mark.parametrize(
    ("losses", "settings", "expected"),
    [
        ([8.2] * 8, {"lr": 1e-9}, {"LP509"}),
        ([8.2, 8.123456, 8.1, *[8.123456] * 5], {"lr": 1e-9}, {"LP509"}),
        ([8.362, *[GUESS + 1e-6 * step for step in range(29)]], {"lr": 1e30}, {"LP510"}),
        ([8.362, *[GUESS] * 29], {"lr": 1e30}, {"LP509", "LP510"}),
        (scattered(8.369, 30), {}, {"LP513"}),
        (scattered(10.0, 30), {"precision": "fp32"}, {"LP513"}),
        ([8.362, 8.6, 8.9, 9.2, 9.4, 9.5, 9.6, 9.6], {}, {"LP512"}),
        ([8.362, 45.3, 45.4, 61.4, 111.9, 102.9, 98.3, 99.2], {"lr": 1.0}, {"LP506", "LP507", "LP512"}),
    ],
)
def test_a_curve_that_no_training_gives_is_a_finding(example, losses, settings, expected):
    assert told(example, losses, **settings) == expected


def test_a_run_that_failed_is_not_asked_for_its_curve(example):
    example["status"] = "failed"
    assert told(example, [8.2] * 8) == set()


def thinned(example, steps, *, every=4, contract_steps=20_002):
    """The messages of LP505 for a curve with these steps."""
    example["loss_curve"] = [
        {"step": step, "loss": 8.0 - step / 10_000, "nonfinite": None, "grad_norm": None} for step in steps
    ]
    example["loss_curve_every"] = every
    example["contract"]["steps"] = contract_steps
    return [one.message for one in findings("result", convert(example, Result, "result")) if one.code == "LP505"]


EVEN = [*range(1, 20_003, 4), 20_002]


@pytest.mark.parametrize(
    ("steps", "settings", "messages"),
    [
        (EVEN, {}, []),
        (EVEN[:7] + EVEN[8:], {}, ["expected one step in 4 and the last, found no step 29"]),
        (EVEN[:-1], {}, ["expected one step in 4 and the last, found no step 20002"]),
        (sorted([*EVEN, 30]), {}, ["expected one step in 4, found step 30"]),
        (EVEN, {"every": 2}, ["expected 4 (of 20002 steps), found 2"]),
        (range(1, 10_001), {"every": 1, "contract_steps": 10_000}, []),
        (
            range(1, 10_000),
            {"every": 1, "contract_steps": 10_000},
            ["expected 10000 points (contract.steps), found 9999"],
        ),
        (range(1, 10_001, 2), {"every": 2, "contract_steps": 10_000}, ["expected 1 (of 10000 steps), found 2"]),
    ],
)
def test_a_long_curve_has_even_steps(example, steps, settings, messages):
    assert thinned(example, steps, **settings) == messages


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
