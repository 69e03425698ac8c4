"""What an estimate says that other settings would save, how far to trust it, and the update that it counts."""

import re
from dataclasses import replace
from functools import cache

import pytest
from llmperf.accounting.parameters import count_parameters
from llmperf.cases.library import library
from llmperf.planning.build import plan_only
from llmperf.planning.states import Selection, Site
from llmperf.types import Plan
from llmperf_compare.cost import Costing
from llmperf_estimate.calibration import expected_error, throughput_errors
from llmperf_estimate.cost import cost_rows_of
from llmperf_estimate.estimate import estimate_of
from llmperf_estimate.step_time import least_bytes
from llmperf_estimate.text import facts, verdict
from llmperf_estimate.traces import analytic_trace, analytic_traces
from llmperf_estimate.types import Estimate, Saving

LLAMA = ("llama3_1_8b_pretrain_pytorch", "H100-SXM5-80GB:1x8", "micro_batch=1", "global_batch=8")
MIXTURE = ("qwen3_30b_a3b_pretrain_pytorch", "H200:1x8", "framework=megatron_core")
"""With experts shared by eight ranks."""


@cache
def estimated(case: str, on: str, *settings: str) -> Estimate:
    outcome = plan_only(Selection(case, settings=settings), Site(on=on))
    assert outcome.plan is not None, outcome.problems
    rates = outcome.plugins.rates(outcome.plan.probe.devices[0].model)
    return estimate_of(outcome.plan, analytic_traces(outcome.plan).stages, rates)


def seconds(estimate: Estimate) -> float:
    return estimate.time.seconds


def recomputation(estimate: Estimate) -> Saving:
    return next(saving for saving in estimate.savings if saving.change.startswith("no gradient checkpointing"))


@pytest.mark.parametrize(
    ("case", "basis"),
    [
        ((*LLAMA, "recompute=operations"), "norms, positions and activations of all blocks"),
        ((*LLAMA, "recompute=block"), "forward pass of all blocks"),
        ((*LLAMA, "recompute=block", "recompute_every=2"), "forward pass of 1 in 2 blocks"),
        ((*MIXTURE, "micro_batch=1"), "with its communication"),
    ],
)
def test_no_recomputation_saves_what_the_step_without_it_is_shorter(case: tuple[str, ...], basis: str) -> None:
    checkpointed, kept = estimated(*case), estimated(*case, "gradient_checkpointing=false")
    saving = recomputation(checkpointed)
    assert saving.seconds == pytest.approx(seconds(checkpointed) - seconds(kept))
    assert basis in saving.basis


def test_operations_alone_are_a_small_part_of_the_step() -> None:
    parts = {
        how: recomputation(of).seconds / seconds(of)
        for how in ("operations", "block")
        for of in [estimated(*LLAMA, f"recompute={how}")]
    }
    assert parts["operations"] < 0.04 < 0.15 < parts["block"] < 0.3


def test_savings_are_losses_included_like_the_step() -> None:
    of = estimated(*MIXTURE)
    assert of.time is not None
    saving = next(saving for saving in of.savings if saving.change.startswith("communication"))
    ideal = of.time.seconds - of.time.loss_seconds
    assert saving.seconds / of.time.seconds == pytest.approx(of.time.communication_seconds / ideal)


def planned(case: str, on: str, *settings: str) -> Plan:
    plan = plan_only(Selection(case, settings=settings), Site(on=on)).plan
    return plan


def test_fused_activations_of_mixtures_are_those_that_a_token_passes() -> None:
    plan = planned(*LLAMA, "gradient_checkpointing=false")
    for name, columns in (
        ("qwen3_30b_a3b", 48 * 8 * 768),
        ("deepseek_v3", 3 * 18432 + 58 * 9 * 2048),
        ("llama3_1_8b", 32 * 14336),
    ):
        of = replace(plan, spec=replace(plan.spec, model=replace(library().model(name), multi_token_layers=0)))
        assert least_bytes(of, 0)["activation"] == 2 * plan.batch.seq_len * 8 * columns


def update(plan: Plan) -> dict[str, int]:
    """Bytes of the operations of the update."""
    return {each.name: each.bytes for each in analytic_trace(plan, 0).operations if each.phase == "update"}


@pytest.mark.slow
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_rank_computes_the_norm_of_its_shard_of_the_gradients(stage: int) -> None:
    whole, shard = (update(planned(*LLAMA, "precision=fp32", f"sharding_stage={number}")) for number in (0, stage))
    name = "gradient norm and clipping"
    assert shard[name] == pytest.approx(whole[name] / 8, rel=1e-6)


ZERO = ("llama2_7b_pretrain_zero", "A100-SXM4-80GB:1x8")


@pytest.mark.parametrize(
    ("case", "precision", "bytes_each"),
    [
        (LLAMA, "bf16_pure", 14),
        (LLAMA, "fp8_rowwise", 30),
        (LLAMA, "fp32", 28),
        (ZERO, "bf16_pure", 14),
        (ZERO, "bf16", 30),  # with the copy in 16 bits
        (ZERO, "fp16", 30),
    ],
)
def test_the_update_moves_what_the_recipe_holds(case: tuple[str, ...], precision: str, bytes_each: int) -> None:
    plan = planned(*case, f"precision={precision}")
    shard = count_parameters(plan.spec.model).total / 8
    added = plan.worker.update_bytes_per_parameter
    assert update(plan)["adamw"] == pytest.approx((bytes_each + added) * shard, rel=1e-6)


def test_fp8_by_formulas_is_noted_as_modelled() -> None:
    (note,) = (note for note in estimated(*LLAMA, "precision=fp8_rowwise").notes if "fp8" in note)
    assert "casts are counted by the bytes" in note
    assert not any("fp8" in note for note in estimated(*LLAMA).notes)


def estimate_text(estimate: Estimate) -> str:
    return "\n".join((verdict(estimate, "en"), *("  ".join(fact) for fact in facts(estimate))))


def error_line(estimate: Estimate) -> str:
    (line,) = (line for line in estimate_text(estimate).splitlines() if line.startswith("expected error"))
    return line


def test_the_expected_error_is_that_of_the_nearest_kind_of_row() -> None:
    published = estimated("llama1_7b_pretrain_paddle", "A100-SXM4-80GB:1x8").expected_error
    assert (published.outside, published.throughput_rows) == ((), 8)
    assert published.nearest == "dense llama in fp16 on NVIDIA A100-SXM4-80GB"
    assert published.throughput_largest == pytest.approx(max(map(abs, published.device_throughput)))
    unknown = estimated("llama2_13b_pretrain_zero", "MI300X:1x8")
    assert "no published throughput by formulas with AMD Instinct MI300X" in error_line(unknown)
    mixture = estimated(*MIXTURE)
    assert "(mixture gpt_oss, qwen3_moe in bf16 on NVIDIA H100 80GB HBM3)" in error_line(mixture)
    assert "no published throughput by formulas with NVIDIA H200" in error_line(mixture)
    fp8 = estimated(*LLAMA, "precision=fp8_rowwise").expected_error
    assert fp8 is not None
    assert "fp8_tensorwise" in fp8.nearest
    assert "fp8_rowwise" in fp8.outside


@pytest.mark.slow
@pytest.mark.parametrize("method", ["analytic", "fake tensors"])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_no_range_is_tighter_than_that_of_a_device_which_is_better_known(method, precision) -> None:
    counts: dict[str, int] = {}
    for row in throughput_errors():
        counts[row.device] = counts.get(row.device, 0) + len(row.errors) * (row.method == method)
    known = [planned("llama2_7b_pretrain_zero", f"{device}:1x8", f"precision={precision}") for device in counts]
    unknown = planned("llama2_7b_pretrain_zero", "MI300X:1x8", f"precision={precision}")
    least = expected_error(unknown, method)
    for plan in known:
        error = expected_error(plan, method)
        assert least.throughput_largest >= error.throughput_largest >= error.throughput


def test_the_range_of_a_cost_is_at_the_largest_error_and_stands_before_the_cost() -> None:
    published = estimated("baichuan2_13b_pretrain_zero", "H800:2x8")
    assert len(published.expected_error.device_throughput) == 2
    rows = cost_rows_of(published, Costing(train_tokens=10**11), 1.0)
    assert rows[0].key == "expected_error"
    assert rows[0].value == published.expected_error.throughput_largest
    assert str(rows[0].text).endswith("; holds for a network of 2,560 Gb/s a node; give yours by --network GBIT")


@pytest.mark.parametrize(
    ("settings", "fits", "why"),
    [
        ((), False, "the memory does not suffice$"),
        (("framework.offload=optimizer",), True, "the host keeps optimizer, gradients, at rates"),
    ],
)
def test_what_does_not_fit_or_is_on_the_host_has_no_throughput_and_no_time(settings, fits, why) -> None:
    estimate = estimated("llama2_13b_pretrain_zero", "R300:1x8", *settings)
    assert (estimate.fits, estimate.time, estimate.tokens_per_second_per_device) == (fits, None, None)
    assert ({mfu.value for mfu in estimate.mfu}, estimate.savings) == ({None}, ())
    text = estimate_text(estimate)
    assert re.search(rf"^time +unknown: {why}", text, re.MULTILINE)
    assert "token/p/s" not in text


def test_a_cost_that_is_unknown_says_why() -> None:
    estimate = estimated("llama2_13b_pretrain_zero", "R300:4x8", "global_batch=32")
    rows = {row.key: row.text for row in cost_rows_of(estimate, Costing(train_tokens=10**11), 1.0)}
    for key in ("train_device_hours", "train_seconds"):
        assert "links between nodes is not known; give the network of each node: --network GBIT" in str(rows[key])


def test_an_estimate_names_its_overlays_and_its_network_and_how_to_give_a_network() -> None:
    one, two = (
        estimate_text(estimated("llama2_7b_pretrain_zero", f"H800:{nodes}x8", "global_batch=16")) for nodes in "12"
    )
    named = "gradient_checkpointing by nvidia_80gb_llama2_7b_zero.toml"
    assert re.search(rf"^overlays +on this device {named}\. To compare devices, set the same", one, re.MULTILINE)
    assert re.search(r"^overlays +none, on this device or on others$", two, re.MULTILINE)
    assert one.index("overlays") < one.index("expected error") < one.index("memory  ") < one.index("throughput  ")
    assert re.search(r"^network +2,560 Gb/s between nodes for each node: ", two, re.MULTILINE)
    assert "\nnetwork " not in one
    unknown = estimate_text(estimated("llama2_7b_pretrain_zero", "R300:2x8", "global_batch=16"))
    assert "links between nodes is not known; give the network of each node: --network GBIT" in unknown
