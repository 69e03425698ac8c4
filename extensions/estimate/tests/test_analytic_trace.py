"""The analytic trace of a step: its FLOPs, communication and memory, for plans of machines that are not here.

Also for mixtures, latent attention and windows: FLOPs are those counted, memory holds all experts.
"""

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from llmperf.accounting.flops import count_flops
from llmperf.accounting.parameters import count_parameters, stage_parameters
from llmperf.cases.library import library
from llmperf.planning.build import plan_only
from llmperf.planning.states import Selection, Site
from llmperf.types import Plan, StepTrace, Workload
from llmperf_estimate.rank_sizes import rank_sizes
from llmperf_estimate.traces import analytic_trace, first_rank_of, step_traces, wrong_trace

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


MIXTURES = ("qwen3_30b_a3b", "mixtral_8x7b", "gpt_oss_20b", "deepseek_v2_lite", "deepseek_v3", "qwen1_5_moe_a2_7b")
NAMES = (*MIXTURES, "qwen3_32b", "gemma3_12b", "chatglm3_6b", "llama3_1_8b")


def plan_of(name: str, case: str = "llama2_7b_pretrain_zero", *settings: str) -> Plan:
    """The plan of a Llama with another model in its place, since no framework need build these yet."""
    of = plan(case, "A100-SXM4-80GB:1x8", "gradient_checkpointing=false", "micro_batch=1", *settings)
    model = library().model(name)
    flops = count_flops(model, Workload(seq_len=of.batch.seq_len))
    return replace(of, spec=replace(of.spec, model=model), flops=flops)


@pytest.mark.parametrize("name", NAMES)
def test_flops_are_those_of_a_kernel_that_skips_masked_pairs(name: str) -> None:
    of = plan_of(name)
    counted = {entry.convention: entry.flops for entry in of.flops.per_token}
    assert flops_per_token(of) == pytest.approx(counted.get("windowed", counted["causal"]), rel=0.06)


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
    of = plan_of("deepseek_v2_lite", "llama2_7b_pretrain_megatron", "tensor_parallel=1", "pipeline_parallel=2")
    of = replace(of, spec=replace(of.spec, model=replace(of.spec.model, layers=26)))
    sizes = [rank_sizes(of, first_rank_of(of, stage)) for stage in range(2)]
    assert [each.dense_blocks for each in sizes] == [1, 0]
    assert tuple(each.parameters for each in sizes) == stage_parameters(of.spec.model, 2)


def with_product(trace, **changes):
    operations = list(trace.operations)
    place = next(place for place, operation in enumerate(operations) if operation.kind == "matmul")
    operations[place] = replace(operations[place], **changes)
    return replace(trace, operations=tuple(operations))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda trace: trace, None),
        (lambda trace: replace(trace, rank=5), "rank: expected 0, which was asked for, found 5"),
        (lambda trace: replace(trace, parameters=7), "found 7"),
        (lambda trace: replace(trace, memory=replace(trace.memory, peak_bytes=2**50)), "memory.at_peak: expected"),
        (lambda trace: with_product(trace, shape=(1, 2, 3, 4)), "expected 48 of the shape (1, 2, 3, 4)"),
        (
            lambda trace: replace(trace, operations=()),
            "FLOPs of products in a step, found 0; a trainer's tensors belong on the device that `Device.places` names",
        ),
        (
            lambda trace: replace(trace, collectives=()),
            "collectives: expected one between 2 data-parallel ranks, which average their gradients, found none",
        ),
        (
            lambda trace: replace(trace, collectives=tuple(replace(one, ranks=(0,)) for one in trace.collectives)),
            "collectives: expected one between 2 data-parallel ranks",
        ),
    ],
)
def test_a_trace_that_contradicts_its_plan_is_refused(change, message):
    of = plan("default", "A100-SXM4-80GB:1x2", "framework=pytorch")
    answer = wrong_trace(change(analytic_trace(of, 0)), of, 0)
    assert answer is None if message is None else message in answer
