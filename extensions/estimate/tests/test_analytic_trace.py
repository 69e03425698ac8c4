"""The analytic trace of a step: its FLOPs, communication and memory, for plans of machines that are not here."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
from llmperf.planning.build import plan_only
from llmperf.planning.states import Selection, Site
from llmperf.types import Plan, StepTrace
from llmperf_estimate.traces import analytic_trace, step_traces

GIB = 2**30


@cache
def plan(case: str, on: str, *settings: str) -> Plan:
    outcome = plan_only(Selection(case, settings=settings), Site(on=on))
    assert outcome.plan is not None, outcome.problems
    return outcome.plan


def trace(case: str, on: str, *settings: str) -> StepTrace:
    return analytic_trace(plan(case, on, *settings), 0)


def flops_per_token(of: Plan) -> float:
    rounds = of.batch.gradient_accumulation
    operations = analytic_trace(of, 0).operations
    total = sum(each.flops * (each.per_micro_batch * rounds + each.per_step) for each in operations)
    return total * of.layout.world_size / of.batch.tokens_per_step


@pytest.mark.parametrize(
    ("case", "on", "convention"),
    [
        ("llama2_7b_pretrain_megatron", "A100-SXM4-40GB:1x8", "causal"),
        ("llama2_7b_lora", "A100-SXM4-40GB:1x1", "causal"),
        ("llama1_7b_pretrain_paddle", "A100-SXM4-80GB:1x8", "causal"),
        ("baichuan2_13b_pretrain_zero", "H800:2x8", "hfu"),
        ("llama2_7b_pretrain_zero_512", "R300:1x8", "hfu"),
    ],
)
def test_flops_are_those_of_the_convention_that_counts_the_same_operations(case, on, convention):
    of = plan(case, on)
    assert flops_per_token(of) == pytest.approx(of.flops.of(convention).flops, rel=0.06)


@pytest.mark.parametrize(
    ("case", "on", "settings", "peak_gib"),
    [
        # traced on fake tensors with torch 2.15 and deepspeed 0.19.8
        ("baichuan2_13b_pretrain_zero", "H800:2x8", ["gradient_accumulation=2"], 69.6),
        ("llama2_7b_pretrain_zero_512", "R300:1x8", [], 19.3),
    ],
)
def test_peak_is_near_that_of_the_traced_program(case, on, settings, peak_gib):
    assert trace(case, on, *settings).memory.peak_bytes / GIB == pytest.approx(peak_gib, rel=0.05)


def test_kinds_add_up_to_the_peak_and_states_stay_between_steps():
    memory = trace("llama2_7b_pretrain_megatron", "A100-SXM4-40GB:1x8").memory
    assert sum(memory.at_peak.values()) == memory.peak_bytes
    assert memory.between_steps["optimizer"] == memory.at_peak["optimizer"]
    assert "activations" not in memory.between_steps
    assert trace("llama2_7b_pretrain_megatron", "A100-SXM4-40GB:1x8").notes[0].startswith("analytic: ")


def test_each_sharding_stage_holds_less():
    base = ("llama2_7b_pretrain_zero", "A100-SXM4-80GB:1x8", "global_batch=16")
    peaks = [trace(*base, f"sharding_stage={stage}").memory.at_peak for stage in range(4)]
    held = [sum(peak.get(kind, 0) for kind in ("parameters", "gradients", "optimizer")) for peak in peaks]
    assert held == sorted(held, reverse=True)
    assert held[0] > 7 * held[3]


def test_settings_that_save_activations_lower_the_peak():
    base = ("llama1_7b_pretrain_paddle", "A100-SXM4-80GB:1x8")
    checkpointed = "gradient_checkpointing=true"
    whole, some, none = (
        trace(*base, *settings).memory.peak_bytes
        for settings in ((), (checkpointed, "recompute_every=2"), (checkpointed,))
    )
    assert none < some < whole
    assert max(none, trace(*base, "micro_batch=1").memory.peak_bytes) < 0.8 * whole


def test_eager_attention_keeps_its_scores():
    base = ("llama2_7b_pretrain_megatron", "A100-SXM4-80GB:1x8")
    memory = [trace(*base, f"attention={name}").memory.at_peak["activations"] for name in ("eager", "flash")]
    assert memory[0] > 2 * memory[1]


def test_the_first_pipeline_stage_holds_more_micro_batches_than_the_last():
    of = plan("llama2_7b_pretrain_megatron", "A100-SXM4-80GB:1x8", "pipeline_parallel=2", "tensor_parallel=2")
    first, last = (analytic_trace(of, rank).memory.at_peak["activations"] for rank in (0, 4))
    assert first > 1.5 * last


def test_collectives_follow_the_layout():
    of = plan("llama2_7b_pretrain_megatron", "A100-SXM4-80GB:1x8", "pipeline_parallel=2", "tensor_parallel=2")
    groups = {(each.collective, each.ranks) for each in analytic_trace(of, 0).collectives}
    assert groups == {
        ("all_reduce", (0, 1)),
        ("reduce_scatter", (0, 2)),
        ("all_gather", (0, 2)),
        ("send_receive", (0, 4)),
    }
    alone = trace("llama2_7b_lora", "A100-SXM4-40GB:1x1")
    assert alone.collectives == ()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("case", "on"),
    [
        ("llama2_7b_lora", "A100-SXM4-40GB:1x1"),
        pytest.param("baichuan2_13b_pretrain_zero", "H800:2x8", marks=pytest.mark.long),
        pytest.param("llama2_7b_pretrain_megatron", "A100-SXM4-40GB:1x8", marks=pytest.mark.long),
    ],
)
def test_peaks_of_the_published_cases_agree_with_traces(case, on):
    traced = step_traces(plan(case, on), lambda line: None)
    assert traced.stages[0].method == "fake tensors", traced.notes
    assert trace(case, on).memory.peak_bytes == pytest.approx(traced.stages[0].memory.peak_bytes, rel=0.15)


def moved(compiles: bool, precision: str = "bf16", model: str = "qwen3_8b") -> Counter[str]:
    """Bytes of a micro batch by kind of operation."""
    settings = (f"precision={precision}", f"model={model}", f"compile={str(compiles).lower()}", "sharding_stage=2")
    more = ("framework=pytorch", "seq_len=4096", "global_batch=16", "micro_batch=2")
    totals: Counter[str] = Counter()
    for operation in trace("default", "H100-SXM5-80GB:1x8", *settings, *more).operations:
        totals[operation.kind] += operation.bytes * operation.per_micro_batch
    return totals


@pytest.mark.parametrize("model", ["llama3_8b", "qwen3_8b", "gemma3_12b"])
def test_a_compiler_saves_traffic_of_norms_residuals_and_positions_alone(model):
    separate, compiled = moved(False, model=model), moved(True, model=model)
    joined = ("norm", "elementwise", "rope")
    assert sum(compiled[kind] for kind in joined) < 0.85 * sum(separate[kind] for kind in joined)
    assert {kind: size for kind, size in compiled.items() if kind not in (*joined, "activation")} == {
        kind: size for kind, size in separate.items() if kind not in (*joined, "activation")
    }
    assert compiled["activation"] <= separate["activation"]


@pytest.mark.parametrize(("precision", "least"), [("fp8_tensorwise", 5), ("fp8_rowwise", 9)])
def test_casts_to_fp8_cost_a_fraction_when_compiled(precision, least):
    plain = moved(True)["copy"]
    separate, compiled = (moved(compiles, precision)["copy"] - plain for compiles in (False, True))
    assert separate > least * compiled > 0
