"""Precision recipes: what they hold, what is refused, and the peak of products in two dtypes."""

from dataclasses import replace
from typing import get_args

import llmperf_schemas
import pytest
from llmperf.accounting.precisions import (
    precision_recipe,
    precision_recipes,
    weighted_peak,
    weighted_peaks,
    work_shares,
)
from llmperf.cases.library import library
from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.planning.problems import precision_problems
from llmperf.types import DeviceInfo, Offers, PeakFlops, Plan, Probe
from llmperf.types.flop_counts import Precision

RECIPES = get_args(Precision)


@pytest.fixture(scope="module")
def plan():
    return json_files.convert(llmperf_schemas.example("plan"), Plan, "plan")


def with_recipe(plan, precision, emulate=False):
    contract, tuning = plan.spec.contract, plan.spec.tuning
    model = library().model("llama3_1_8b", "test")
    contract = replace(contract, precision=precision, seq_len=8192)
    return replace(
        plan.spec, model=model, contract=contract, tuning=replace(tuning, emulate_precision=emulate), framework={}
    )


def test_every_recipe_has_a_name_that_contracts_take_and_a_source():
    assert tuple(precision_recipes()) == get_args(Precision)
    assert all(recipe.source for recipe in precision_recipes().values())
    with pytest.raises(UserError, match="fp8_rowwise"):
        precision_recipe("fp8_row")


def problems_of(plan, precision, offered, emulate=False, trains=RECIPES):
    spec = with_recipe(plan, precision, emulate)
    needs = replace(plan.worker.needs, precision=precision_recipe(precision).products)
    probe = Probe(
        vendor="acme",
        devices=(DeviceInfo(index=0, model="Acme A1", memory_bytes=2**34),),
        offers=Offers(precisions=offered, runtimes=("torch",), collective_backend="gloo"),
    )
    worker = replace(plan.worker, needs=needs, precisions=trains)
    return [problem.message for problem in precision_problems(spec, worker, probe)]


def test_fp8_is_refused_where_devices_lack_it_unless_it_is_emulated(plan):
    (message,) = problems_of(plan, "fp8_rowwise", ("fp32", "bf16"))
    assert message.startswith("Acme A1 (acme) offers fp32, bf16, found fp8; nearest: --set precision=bf16 (a variant)")
    assert "--set emulate_precision=true" in message
    assert problems_of(plan, "fp8_rowwise", ("fp32", "bf16"), emulate=True) == []
    assert problems_of(plan, "fp8_rowwise", ("fp32", "bf16", "fp8")) == []
    # the other products need their dtype too
    (message,) = problems_of(plan, "fp8_rowwise", ("fp32",), emulate=True)
    assert "offers fp32, found fp8; nearest: --set precision=fp32 (a variant)" in message


def test_nothing_is_emulated_that_devices_have_and_frameworks_refuse_other_recipes(plan):
    (message,) = problems_of(plan, "fp8_rowwise", ("fp32", "bf16", "fp8"), emulate=True)
    assert message == "nothing is emulated, Acme A1 computes in fp8: expected false, found true"
    (message,) = problems_of(plan, "bf16", ("fp32", "bf16"), emulate=True)
    assert message == "nothing is emulated, bf16 has no products in fp8: expected false, found true"
    # of the framework
    (message,) = problems_of(plan, "bf16_pure", ("fp32", "bf16"), trains=("fp32", "bf16"))
    assert "trains in fp32, bf16, found bf16_pure; nearest: --set precision=bf16 (a variant)" in message


def test_weighted_peak_is_the_harmonic_mean_by_work(plan):
    """Llama 3.1 8B at 8192: 6.98 B parameters in projections, 0.525 B in the head, 32 x 4096 x 8192 causal."""
    spec = with_recipe(plan, "fp8_rowwise")
    shares = work_shares(spec.model, spec.contract, "causal")
    projections, head, attention = 2 * 6_979_321_856, 2 * 128_256 * 4096, 2 * 32 * 4096 * 8192
    assert shares["fp8"] == pytest.approx(projections / (projections + head + attention))
    assert shares["bf16"] == pytest.approx(1 - shares["fp8"])
    assert work_shares(spec.model, spec.contract, "exact")["fp8"] == pytest.approx(projections / (projections + head))
    peak = weighted_peak(shares, {"fp8": (2e15, "a"), "bf16": (1e15, "b")})
    assert peak.flops_per_second == pytest.approx(1 / (shares["fp8"] / 2e15 + shares["bf16"] / 1e15))
    assert 1e15 < peak.flops_per_second < 2e15


def test_only_mixed_recipes_with_both_peaks_have_a_weighted_one(plan):
    fp8 = PeakFlops(device_model="A", dtype="fp8", flops_per_second=2e15, source="a", date="2026")
    bf16 = replace(fp8, dtype="bf16", flops_per_second=1e15)
    mixed = replace(plan, spec=with_recipe(plan, "fp8_rowwise"), peak=fp8, rest_peak=bf16)
    assert set(weighted_peaks(mixed)) == {entry.convention for entry in plan.flops.per_token}
    assert weighted_peaks(replace(mixed, rest_peak=None)) == {}
    assert weighted_peaks(replace(mixed, flops=replace(plan.flops, counted_by="acme"))) == {}
    assert weighted_peaks(replace(mixed, spec=with_recipe(plan, "bf16"), peak=bf16)) == {}
