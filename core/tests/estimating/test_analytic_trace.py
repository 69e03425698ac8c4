"""The analytic trace of a step: its FLOPs, communication and memory, for plans of machines that are not here."""

from __future__ import annotations

from functools import cache

import pytest
from llmperf.estimating.analytic import analytic_trace
from llmperf.planning.build import plan_only
from llmperf.planning.states import Request
from llmperf.types import Plan, StepTrace

GIB = 2**30


@cache
def plan(case: str, on: str, *settings: str) -> Plan:
    outcome = plan_only(Request(case=case, on=on, settings=settings))
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


def test_each_sharding_stage_holds_less():
    held = [
        sum(
            trace(
                "llama2_7b_pretrain_zero", "A100-SXM4-80GB:1x8", f"sharding_stage={stage}", "global_batch=16"
            ).memory.at_peak.get(kind, 0)
            for kind in ("parameters", "gradients", "optimizer")
        )
        for stage in (0, 1, 2, 3)
    ]
    assert held == sorted(held, reverse=True)
    assert held[0] > 7 * held[3]


@pytest.mark.parametrize("setting", ["gradient_checkpointing=true", "micro_batch=1"])
def test_settings_that_save_activations_lower_the_peak(setting):
    base = ("llama1_7b_pretrain_paddle", "A100-SXM4-80GB:1x8")
    assert trace(*base, setting).memory.peak_bytes < 0.8 * trace(*base).memory.peak_bytes


def test_recomputing_every_second_block_is_in_between():
    base = ("llama1_7b_pretrain_paddle", "A100-SXM4-80GB:1x8")
    every = [
        trace(*base, *settings).memory.peak_bytes
        for settings in ([], ["gradient_checkpointing=true", "recompute_every=2"], ["gradient_checkpointing=true"])
    ]
    assert every == sorted(every, reverse=True)


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


def test_it_says_that_it_is_analytic():
    of = trace("llama1_13b_pretrain_paddle", "A100-SXM4-80GB:1x8")
    assert of.method == "analytic"
    assert of.host_waits is None
    assert of.notes[0].startswith("analytic: ")
