"""Parameters, FLOPs, MFU and model states: known totals, formulas that compute to what they say, unknown stays None."""

from dataclasses import replace
from types import SimpleNamespace
from typing import get_args

import llmperf_schemas
import pytest
from llmperf.accounting.flops import count_flops, utilisation, workload_of
from llmperf.accounting.model_states import Transient, stage_state_bytes, state_bytes
from llmperf.accounting.parameters import count_parameters, lora_parameters, stage_parameters
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
from llmperf.types import DeviceInfo, Layout, Lora, Needs, Offers, PeakFlops, Plan, Probe, WorkerPlan, Workload
from llmperf.types.flop_counts import Precision

GIB = 2**30


def model(name):
    return library().model(name)


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("llama1_7b", 6_738_415_616),
        ("llama1_13b", 13_015_864_320),
        ("llama2_7b", 6_738_415_616),
        ("llama2_70b", 68_976_648_192),
        ("llama3_8b", 8_030_261_248),
        ("baichuan2_7b", 7_505_973_248),
        ("baichuan2_13b", 13_896_668_160),
        ("aquila2_7b", 7_295_537_152),
    ],
)
def test_published_totals(name, total):
    assert count_parameters(model(name)).total == total


def test_parts_of_a_model_by_hand():
    """Two layers, width 8, 4 heads of 2, 2 of them for keys and values, MLP 20, 10 tokens."""
    facts = replace(
        model("llama_tiny"), vocab_size=10, hidden_size=8, intermediate_size=20, layers=2, attention_heads=4, kv_heads=2
    )
    parts = count_parameters(facts)
    assert parts.input_embedding == 10 * 8
    assert parts.attention == 2 * (8 * 8 + 8 * 4 + 8 * 4 + 8 * 8)
    assert parts.mlp == 2 * 3 * 8 * 20
    assert parts.norms == 2 * 2 * 8 + 8
    assert parts.head == 10 * 8
    assert parts.total == parts.looked_up + parts.norms + parts.multiplied


def test_tied_embedding_is_counted_once_and_multiplied():
    free = model("llama3_8b")
    tied = replace(free, tied_embeddings=True)
    embedding = free.vocab_size * free.hidden_size
    assert count_parameters(free).total - count_parameters(tied).total == embedding
    assert count_flops(tied, Workload(seq_len=1)).embedding_parameters == 0
    assert count_flops(free, Workload(seq_len=1)).embedding_parameters == embedding
    # the device multiplies the same matrices either way
    assert count_parameters(tied).multiplied == count_parameters(free).multiplied


def test_conventions_of_llama2_7b():
    """By hand: N = 6,738,415,616, embedding 131,072,000, L = 32, H = 4096, S = 4096."""
    flops = count_flops(model("llama2_7b"), Workload(seq_len=4096))
    parameters, embedding, square = 6_738_415_616, 131_072_000, 32 * 4096 * 4096
    assert flops.of("nominal").flops == 42e9
    assert flops.of("exact").flops == 6 * parameters
    assert flops.of("palm").flops == 6 * parameters + 12 * square
    assert flops.of("causal").flops == 6 * (parameters - embedding) + 6 * square
    assert flops.of("hfu").flops == flops.of("palm").flops
    with pytest.raises(KeyError):
        flops.of("guessed")


def test_only_hfu_counts_what_checkpointing_computes_again():
    plain = count_flops(model("llama2_7b"), Workload(seq_len=4096))
    again = count_flops(model("llama2_7b"), Workload(seq_len=4096, gradient_checkpointing=True))
    for before, after in zip(plain.per_token, again.per_token, strict=True):
        recomputed = any("recomputed" in term for term in after.leaves_out)
        if after.convention == "hfu":
            assert after.flops == pytest.approx(before.flops * 4 / 3)
            assert not recomputed
        else:
            assert after.flops == before.flops
            assert recomputed


def test_every_convention_says_what_it_leaves_out():
    flops = count_flops(model("llama3_8b"), Workload(seq_len=4096))
    left_out = {entry.convention: " ".join(entry.leaves_out) for entry in flops.per_token}
    assert "beyond the nominal size: 6 x 30,261,248" in left_out["nominal"]
    assert "attention" in left_out["nominal"]
    assert "attention scores" in left_out["exact"]
    assert "attention" not in left_out["palm"]
    assert "masked half of attention" in left_out["causal"]
    assert all("element-wise" in text for text in left_out.values())


def test_lora_trains_two_thirds_and_the_adapters():
    facts = model("llama2_7b")
    adapters = lora_parameters(facts, Lora(rank=8, target_modules=("q_proj", "v_proj")))
    assert adapters == 4_194_304  # 32 layers x 2 projections x 8 x (4096 + 4096)
    full = count_flops(facts, Workload(seq_len=512))
    lora = count_flops(facts, Workload(seq_len=512, lora_parameters=adapters))
    assert lora.of("nominal").flops == 4 * 7e9
    assert lora.of("exact").flops == pytest.approx(full.of("exact").flops * 2 / 3 + 6 * adapters)
    attention = full.of("palm").flops - full.of("exact").flops
    assert lora.of("palm").flops - lora.of("exact").flops == attention  # scores have no weights to freeze


def test_adapters_are_as_wide_as_grouped_heads_and_packed_projections():
    everywhere = Lora(rank=1, target_modules=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "down_proj"))
    per_layer = 8192 + (4096 + 1024) * 2 + 8192 + (4096 + 14336) * 2
    assert lora_parameters(model("llama3_8b"), everywhere) == 32 * per_layer
    assert lora_parameters(model("baichuan2_7b"), Lora(rank=8, target_modules=("W_pack",))) == 32 * 8 * 4 * 4096


@pytest.mark.parametrize(
    ("name", "targets", "message"),
    [
        ("baichuan2_7b", ("q_proj",), "unknown projection 'q_proj'"),
        ("mixtral_tiny", ("q_proj", "gate_proj"), r"of attention \(q_proj, .*experts take no adapters, found"),
        ("llama2_7b", ("q_prj",), "did you mean 'q_proj'"),
    ],
)
def test_projections_that_take_no_adapters_are_refused(name, targets, message):
    with pytest.raises(UserError, match=message):
        lora_parameters(model(name), Lora(target_modules=targets))


PEAK = PeakFlops(device_model="A", dtype="bf16", flops_per_second=312e12, source="datasheet", date="2021-06")


def test_mfu_is_throughput_times_flops_over_the_share_of_the_peak():
    flops = count_flops(model("llama2_7b"), Workload(seq_len=4096))
    whole = utilisation(flops, 2868, PEAK, 1.0)
    half = utilisation(flops, 1434, PEAK, 0.5)
    assert [one.convention for one in whole if one.headline] == ["nominal"]
    for one, other, entry in zip(whole, half, flops.per_token, strict=True):
        assert one.value == pytest.approx(2868 * entry.flops / 312e12)
        assert other.value == pytest.approx(one.value)
        assert (one.peak_dtype, one.peak_source, one.peak_confidence) == ("bf16", "datasheet", "datasheet")
        assert one.formula == entry.formula
        assert other.peak_flops_per_second == 156e12


def test_mfu_is_null_without_peak_or_throughput():
    flops = count_flops(model("llama2_7b"), Workload(seq_len=4096))
    for one in utilisation(flops, 2868, None, 1.0):
        assert (one.value, one.peak_flops_per_second, one.peak_source) == (None, None, None)
        assert one.flops_per_token > 0
    assert all(one.value is None for one in utilisation(flops, None, PEAK, 1.0))
    assert all(one.value is None for one in utilisation(flops, 2868, replace(PEAK, flops_per_second=0.0), 1.0))
    assert all(one.value == 0 for one in utilisation(flops, 0.0, PEAK, 1.0))


def layout(stage, data_parallel=1, tensor_parallel=1, pipeline_parallel=1):
    return Layout(
        nodes=1,
        devices_per_node=data_parallel * tensor_parallel * pipeline_parallel,
        tensor_parallel=tensor_parallel,
        pipeline_parallel=pipeline_parallel,
        data_parallel=data_parallel,
        sharding_stage=stage,
        sharding_degree=data_parallel if stage else 1,
    )


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.88)])
def test_states_are_those_of_the_zero_paper(stage, gigabytes):
    """Figure 1 of the ZeRO paper: 7.5B parameters, 64-way data parallel, mixed precision."""
    assert state_bytes(7_500_000_000, layout(stage, 64), "fp16") / 1e9 == pytest.approx(gigabytes, rel=0.01)


def test_what_the_update_and_its_buffers_hold_is_divided_as_optimiser_states_are():
    four, six = Transient(update_bytes=4), Transient(update_bytes=6)
    assert state_bytes(1000, layout(0), "bf16", transient=four) == (16 + 4) * 1000
    assert state_bytes(1000, layout(1, 2), "bf16", transient=six) == 4 * 1000 + (12 + 6) * 500
    assert state_bytes(1000, layout(1, 2), "bf16", 100, six) == 2 * 1000 + 2 * 100 + (12 + 6) * 50
    for at_once, held in ((200, 200), (500, 500), (900, 500)):  # an update in parts holds one part
        transient = Transient(update_bytes=6, update_parameters=at_once)
        assert state_bytes(1000, layout(3, 2), "bf16", transient=transient) == 16 * 500 + 6 * held
    for buffers, more in ((100, 6 * 500), (5000, 5000)):  # buffers count where they are larger
        transient = Transient(update_bytes=6, buffer_bytes=buffers)
        assert state_bytes(1000, layout(2, 2), "bf16", transient=transient) == 2 * 1000 + 14 * 500 + more


def test_offloaded_states_take_no_memory_of_the_device():
    optimizer = Transient(update_bytes=6, offloaded=("optimizer",))
    assert state_bytes(1000, layout(1, 2), "bf16", transient=optimizer) == 4 * 1000
    everything = Transient(offloaded=("parameters", "gradients", "optimizer"), buffer_bytes=7)
    assert state_bytes(1000, layout(3, 2), "bf16", transient=everything) == 7


def test_fp32_states_have_no_second_copy_and_tensor_parallel_divides_all():
    assert state_bytes(1000, layout(0), "fp32") == 16 * 1000
    assert state_bytes(1000, layout(0), "bf16_pure") == 8 * 1000
    assert state_bytes(1000, layout(1, 2), "fp8_rowwise") == 4 * 1000 + 12 * 500
    assert state_bytes(1000, layout(1, 2), "tf32") == 8 * 1000 + 8 * 500
    assert state_bytes(8_000_000, layout(0, 1, 4), "bf16") == 16 * 2_000_000


def test_stages_hold_equal_layers_and_the_ends_hold_more():
    facts = model("llama1_7b")
    embedding, hidden = 32_000 * 4096, 4096
    layer = (count_parameters(facts).total - 2 * embedding - hidden) // 32
    first, second, third, last = stage_parameters(facts, 4)
    assert (first, second, third, last) == (8 * layer + embedding, 8 * layer, 8 * layer, 8 * layer + embedding + hidden)
    tuning = SimpleNamespace(accumulation_dtype="model")
    spec = SimpleNamespace(model=facts, contract=SimpleNamespace(lora=None, precision="fp16"), tuning=tuning)
    worker = WorkerPlan(layout=layout(0, 1, 2, 4), needs=Needs(runtime="torch", precision="fp16"), agent=())
    assert stage_state_bytes(spec, worker, False) == tuple(8 * n for n in stage_parameters(facts, 4))


def test_frozen_weights_have_no_gradients_or_states():
    facts = model("llama2_7b")
    total, adapters = count_parameters(facts).total, 4_194_304
    assert state_bytes(total, layout(0), "fp32", adapters) == 4 * total + 12 * adapters
    assert state_bytes(total, layout(0), "fp32", adapters) < 26 * GIB  # fits where training all of it does not
    assert state_bytes(total, layout(0), "fp32") > 100 * GIB


@pytest.mark.parametrize("adapters", [None, 1000])
def test_padded_records_are_not_credited_with_attention_over_padding(adapters):
    facts = model("llama2_7b")
    packed, padded = (
        count_flops(facts, Workload(seq_len=4096, padded=flag, lora_parameters=adapters)) for flag in (False, True)
    )
    for convention in ("palm", "causal", "hfu"):
        assert padded.of(convention).flops < packed.of(convention).flops
        assert padded.of(convention).flops <= padded.of("exact").flops
        assert "all work on padding" in padded.of(convention).leaves_out[0]
        assert "4,096 x 4,096" not in padded.of(convention).formula
    assert padded.of("nominal").flops == packed.of("nominal").flops


def test_the_contract_says_whether_records_are_padded():
    case = library().case("llama2_7b_lora")
    facts = model(case.contract.model)
    workloads = [
        workload_of(facts, replace(case.contract, packing=packing), case.tuning) for packing in ("packed", "padded")
    ]
    assert [workload.padded for workload in workloads] == [False, True]


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
