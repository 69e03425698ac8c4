"""Estimates of mixtures whose experts are shared by ranks: states, messages, and the load that is assumed."""

from dataclasses import replace
from functools import cache

import llmperf_schemas
import pytest
from llmperf.accounting.flops import count_flops
from llmperf.accounting.model_states import stage_state_bytes, state_bytes
from llmperf.accounting.parameters import count_parameters, stage_experts
from llmperf.cases.library import library
from llmperf.files import json_files
from llmperf.planning.build import plan_only
from llmperf.planning.states import Selection, Site
from llmperf.types import DeviceRates, LinkRate, Plan, TracedCollective, Workload
from llmperf_estimate.rank_sizes import expert_load, load_notes
from llmperf_estimate.seconds import collective_seconds
from llmperf_estimate.traces import analytic_trace

NAME = "qwen3_30b_a3b"
MODEL = library().model(NAME)


@cache
def llama_plan(nodes: int = 1) -> Plan:
    settings = ("gradient_checkpointing=false", "micro_batch=1", "sharding_stage=0", "global_batch=16")
    outcome = plan_only(Selection("llama2_7b_pretrain_zero", settings=settings), Site(on=f"A100-SXM4-80GB:{nodes}x8"))
    assert outcome.plan is not None, outcome.problems
    return outcome.plan


def plan_of(ways: int, routing: str = "learned", skew: float = 1.0, stage: int = 0, nodes: int = 1) -> Plan:
    plan = llama_plan(nodes)
    contract = replace(plan.spec.contract, routing=routing, routing_skew=skew)
    tuning = replace(plan.spec.tuning, expert_parallel=ways, sharding_stage=stage)
    spec = replace(plan.spec, model=MODEL, contract=contract, tuning=tuning)
    layout = replace(plan.layout, expert_parallel=ways, sharding_stage=stage, sharding_degree=8 if stage else 1)
    flops = count_flops(MODEL, Workload(seq_len=plan.batch.seq_len))
    return replace(plan, spec=spec, flops=flops, worker=replace(plan.worker, layout=layout))


def test_ranks_that_share_experts_hold_their_part_of_them() -> None:
    count, (experts,) = count_parameters(MODEL), stage_experts(MODEL, 1)
    assert experts == count.experts
    trace = analytic_trace(plan_of(8), 0)
    held = trace.memory.between_steps["parameters"] + trace.memory.between_steps["optimizer"]
    assert held == pytest.approx(14 * (count.total - experts + experts / 8), rel=1e-6)
    worker = replace(plan_of(8).worker, update_bytes_per_parameter=0.0, buffer_bytes=0)
    assert stage_state_bytes(plan_of(8).spec, worker, False) == (16 * (count.total - experts + experts // 8),)


def test_experts_of_a_rank_are_not_sharded_besides() -> None:
    layout = plan_of(4, stage=3).layout
    assert state_bytes(1000, layout, "bf16", experts=800) == 16 * (200 // 8 + 800 // 4)
    assert state_bytes(1000, layout, "bf16", 80, experts=800) == 2 * (200 // 8 + 800 // 4) + 14 * 80 // 8
    assert state_bytes(1000, replace(layout, expert_parallel=1), "bf16", experts=800) == 16 * 1000 // 8


def test_gathered_blocks_are_held_without_the_experts_of_the_rank_itself() -> None:
    def communicated(ways: int, blocks: int) -> int:
        plan = plan_of(ways, stage=3)
        worker = replace(plan.worker, gathered_blocks=blocks, buffer_bytes=0)
        return analytic_trace(replace(plan, worker=worker), 0).memory.at_peak.get("communication", 0)

    experts = count_parameters(MODEL).experts // MODEL.layers
    attention = MODEL.hidden_size * 128 * (32 + 4 + 4 + 32)
    router = MODEL.hidden_size * 128
    assert communicated(1, 2) == 2 * 2 * (experts + attention + router)
    assert communicated(8, 2) == 2 * 2 * (attention + router)
    assert communicated(1, 0) == 0


def test_the_same_products_are_computed_with_shared_experts() -> None:
    alone, shared = (analytic_trace(plan_of(ways), 0).operations for ways in (1, 8))
    flops = [sum(each.flops * each.per_micro_batch for each in trace) for trace in (alone, shared)]
    assert flops[1] == pytest.approx(flops[0], rel=1e-6)
    assert {each.shape[0] for each in shared if each.name == "grouped matmul"} == {16}  # of 128 experts


def test_tokens_go_to_their_experts_and_back() -> None:
    plan = plan_of(4)
    messages = [each for each in analytic_trace(plan, 5).collectives if each.collective == "all_to_all"]
    assert [(each.phase, each.per_micro_batch) for each in messages] == [("forward", 96), ("backward", 96)]
    assert {each.ranks for each in messages} == {(4, 5, 6, 7)}
    assert {each.bytes for each in messages} == {2 * MODEL.hidden_size * 8 * plan.batch.seq_len}


def test_gradients_of_experts_are_summed_over_the_ranks_that_hold_the_same_ones() -> None:
    experts, total = count_parameters(MODEL).experts, count_parameters(MODEL).total
    sums = [each for each in analytic_trace(plan_of(4), 5).collectives if each.collective == "all_reduce"]
    assert {(each.ranks, each.bytes) for each in sums} == {
        ((1, 5), 2 * experts // 4),
        (tuple(range(8)), 2 * (total - experts)),
    }
    assert all(each.collective != "all_to_all" for each in analytic_trace(plan_of(1), 5).collectives)


def test_skewed_routing_makes_ranks_wait_for_the_busiest() -> None:
    mild, strong = (expert_load(plan_of(8, "skewed", skew)) for skew in (0.5, 1.5))
    assert 1 < mild < strong < 8
    assert expert_load(plan_of(8, "balanced")) == expert_load(plan_of(1, "skewed")) == 1
    even, skewed = (analytic_trace(plan_of(8, *routing), 0) for routing in (("balanced",), ("skewed", 1.5)))
    sent = [
        next(each.bytes for each in trace.collectives if each.collective == "all_to_all") for trace in (even, skewed)
    ]
    assert sent[1] == pytest.approx(strong * sent[0], rel=1e-6)
    grouped = [
        sum(each.flops * each.per_micro_batch for each in trace.operations if each.name.startswith("grouped"))
        for trace in (even, skewed)
    ]
    assert grouped[1] == pytest.approx(strong * grouped[0], rel=0.01)
    assert skewed.memory.peak_bytes > even.memory.peak_bytes


@pytest.mark.parametrize(
    ("ways", "routing", "text"),
    [
        (1, "learned", "taken as equal"),
        (8, "balanced", "equal, by balanced routing"),
        (1, "skewed", "each rank computes all experts"),
        (8, "skewed", "the mean of tokens, on average over the layers"),
    ],
)
def test_the_load_that_was_assumed_is_noted(ways: int, routing: str, text: str) -> None:
    plan = plan_of(ways, routing)
    (note,) = load_notes(plan)
    assert text in note
    assert note in analytic_trace(plan, 0).notes
    assert load_notes(llama_plan()) == ()


def test_between_nodes_each_rank_sends_over_its_own_adapter() -> None:
    links = (
        LinkRate(scope="node", bytes_per_second=1e12, latency_seconds=0.0, source=""),
        LinkRate(scope="cluster", bytes_per_second=1e10, latency_seconds=0.0, source=""),
    )
    known = json_files.convert(llmperf_schemas.example("plan")["rates"], DeviceRates, "rates")
    rates = replace(known, links=links)
    message = TracedCollective(
        collective="all_to_all", bytes=10**9, ranks=tuple(range(16)), phase="forward", overlaps=False, per_micro_batch=1
    )
    half_leaves_the_node = 0.5e9 / 1e10
    assert collective_seconds(message, rates, plan_of(16, nodes=2).layout) == pytest.approx(half_leaves_the_node)
