"""Analytic traces of mixtures, latent attention and windows: FLOPs are those counted, memory holds all experts.

The plan is that of a Llama with another model in its place, since no framework need build these yet.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from llmperf.accounting.flops import count_flops
from llmperf.accounting.parameters import count_parameters, stage_parameters
from llmperf.cases.library import library
from llmperf.planning.build import plan_only
from llmperf.planning.states import Selection, Site
from llmperf.types import Plan, Workload
from llmperf_estimate.rank_sizes import rank_sizes
from llmperf_estimate.traces import analytic_trace, first_rank_of

MIXTURES = ("qwen3_30b_a3b", "mixtral_8x7b", "gpt_oss_20b", "deepseek_v2_lite", "deepseek_v3", "qwen1_5_moe_a2_7b")
NAMES = (*MIXTURES, "qwen3_32b", "gemma3_12b", "chatglm3_6b", "llama3_1_8b")


@cache
def llama_plan(case: str, *settings: str) -> Plan:
    outcome = plan_only(Selection(case, settings=settings), Site(on="A100-SXM4-80GB:1x8"))
    assert outcome.plan is not None, outcome.problems
    return outcome.plan


def plan_of(name: str, case: str = "llama2_7b_pretrain_zero", *settings: str) -> Plan:
    plan = llama_plan(case, "gradient_checkpointing=false", "micro_batch=1", *settings)
    model = library().model(name)
    flops = count_flops(model, Workload(seq_len=plan.batch.seq_len))
    return replace(plan, spec=replace(plan.spec, model=model), flops=flops)


def flops_per_token(plan: Plan) -> float:
    rounds = plan.batch.gradient_accumulation
    operations = analytic_trace(plan, 0).operations
    total = sum(each.flops * (each.per_micro_batch * rounds + each.per_step) for each in operations)
    return total * plan.layout.world_size / plan.batch.tokens_per_step


@pytest.mark.parametrize("name", NAMES)
def test_flops_are_those_of_a_kernel_that_skips_masked_pairs(name: str) -> None:
    plan = plan_of(name)
    counted = {entry.convention: entry.flops for entry in plan.flops.per_token}
    assert flops_per_token(plan) == pytest.approx(counted.get("windowed", counted["causal"]), rel=0.06)


@pytest.mark.parametrize("name", MIXTURES)
def test_weights_of_all_experts_are_held(name: str) -> None:
    trace = analytic_trace(plan_of(name), 0)
    assert trace.parameters == count_parameters(library().model(name)).total
    held = trace.memory.between_steps["parameters"] + trace.memory.between_steps["optimizer"]
    assert held == pytest.approx(14 * trace.parameters / 8, rel=0.01)  # sharded among eight ranks, in bf16 with masters


def test_dense_and_mixture_blocks_of_a_stage_are_told_apart() -> None:
    first, others = rank_sizes(plan_of("deepseek_v3"), 0).kinds
    assert (first.blocks, first.mixture, first.inner) == (3, False, 18432)
    assert (others.blocks, others.mixture, others.inner) == (58, True, 9 * 2048)
    assert others.block_matrices > 256 * 3 * 2048 * 7168


def test_pipeline_stages_hold_their_own_layers() -> None:
    plan = plan_of("deepseek_v2_lite", "llama2_7b_pretrain_megatron", "tensor_parallel=1", "pipeline_parallel=2")
    plan = replace(plan, spec=replace(plan.spec, model=replace(plan.spec.model, layers=26)))
    sizes = [rank_sizes(plan, first_rank_of(plan, stage)) for stage in range(2)]
    assert [each.dense_blocks for each in sizes] == [1, 0]
    assert tuple(each.parameters for each in sizes) == stage_parameters(plan.spec.model, 2)
