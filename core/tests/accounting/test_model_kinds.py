"""Parameters and FLOPs of mixtures, latent attention, windows and multi-token layers, without any library."""

import re
from dataclasses import replace
from itertools import product
from math import prod

import pytest
from llmperf.accounting.counting import attention_terms, flops_by, forward_flops, known_conventions
from llmperf.accounting.flops import count_flops
from llmperf.accounting.parameters import count_parameters, stage_parameters
from llmperf.cases.library import library
from llmperf.types import Latent, Mixture, Workload

NAMES = sorted(library().paths("models"))


def model(name):
    return library().model(name)


def at_4096(name):
    return count_flops(model(name), Workload(seq_len=4096))


@pytest.mark.parametrize(
    ("name", "full", "causal"),
    [
        ("llama3_1_8b", "51.5", "48.2"),
        ("llama3_1_70b", "449", "433"),
        ("llama3_1_405b", "2524", "2473"),
        ("qwen3_8b", "52.7", "49.0"),
        ("qwen3_32b", "218", "205"),
        ("qwen3_30b_a3b", "27.9", "23.1"),
        ("qwen3_235b_a22b", "167", "148"),
        ("gpt_oss_20b", "26.5", "24.1"),
        ("gpt_oss_120b", "38.0", "34.4"),
        ("deepseek_v2_lite", "18.1", "16.4"),
        ("deepseek_v3", "281", "250"),
        ("kimi_k2", "221", "205"),
    ],
)
def test_gflop_per_token_as_torchtitan_and_megatron_core_count(name, full, causal):
    for convention, printed in (("full", full), ("megatron_core", causal)):
        counted = flops_by(known_conventions()[convention], model(name), Workload(seq_len=4096)).flops / 1e9
        assert f"{counted:.{len(printed.partition('.')[2])}f}" == printed, convention
    if name == "qwen3_30b_a3b":
        at_8192 = flops_by(known_conventions()["full"], model(name), Workload(seq_len=8192)).flops
        assert f"{at_8192 / 1e9:.2f}" == "37.58"


@pytest.mark.parametrize(("name", "printed"), [("gpt_oss_20b", "22.9"), ("gpt_oss_120b", "32.7")])
def test_windows_are_counted_as_windows(name, printed):
    assert f"{at_4096(name).of('windowed').flops / 1e9:.1f}" == printed


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("qwen3_30b_a3b", "30.5", "3.04"),
        ("qwen3_235b_a22b", "235.1", "21.57"),
        ("gpt_oss_20b", "20.9", "3.61"),
        ("gpt_oss_120b", "116.8", "5.13"),
        ("deepseek_v2_lite", "15.7", "2.45"),
        ("deepseek_v3", "671.0", "36.63"),
        ("kimi_k2", "1026.4", "31.69"),
    ],
)
def test_total_and_active_parameters_of_mixtures(name, total, active):
    count = count_parameters(model(name))
    assert f"{count.total / 1e9:.1f}" == total
    assert f"{(count.active - count.looked_up) / 1e9:.2f}" == active


@pytest.mark.parametrize("name", NAMES)
def test_components_add_up(name):
    facts, count = model(name), count_parameters(model(name))
    assert sum(count.components.values()) == count.total
    assert (count.active == count.total) == (facts.mixture is None)
    weights = forward_flops(facts, 128, "none")
    assert weights.pop("attention") == 0
    assert sum(weights.values()) == 2 * count.multiplied
    assert stage_parameters(facts, 1) == (count.total,)
    both = sum(stage_parameters(facts, 2))
    assert both == count.total + (count.input_embedding if facts.tied_embeddings else 0)


def test_latent_attention_and_mixture_by_hand():
    """Width 8, 2 heads, ranks 4 and 3, widths 2 (rotated), 4 and 5; 1 dense layer of 20, 2 mixtures of 4 experts."""
    facts = replace(
        model("deepseek_v3_tiny"),
        vocab_size=10,
        hidden_size=8,
        intermediate_size=20,
        layers=3,
        attention_heads=2,
        kv_heads=2,
        latent=Latent(q_rank=4, kv_rank=3, rope_width=2, nope_width=4, value_width=5),
        mixture=Mixture(experts=4, top_k=2, expert_width=6, shared_experts=1, dense_layers=1),
    )
    count = count_parameters(facts)
    assert count.attention == 3 * (8 * 4 + 4 * 2 * 6 + 8 * (3 + 2) + 3 * 2 * (4 + 5) + 2 * 5 * 8)
    assert count.mlp == 3 * 8 * 20
    assert count.experts == 2 * 4 * 3 * 8 * 6
    assert count.idle_experts == count.experts / 2
    assert count.shared_experts == 2 * 3 * 8 * 6
    assert count.router == 2 * 8 * 4
    assert count.norms == 3 * (2 * 8 + 4 + 3) + 8
    # scores: 2 heads x 6 wide; values: 2 heads x 5 wide
    assert forward_flops(facts, 16, "full")["attention"] == 3 * 2 * 16 * (2 * 6 + 2 * 5)
    assert forward_flops(facts, 16, "causal")["attention"] == 3 * 16 * (2 * 6 + 2 * 5)


def test_biases_and_sinks_by_hand():
    tiny = model("gpt_oss_tiny")
    attention = 8 * 32 + 2 * 2 * 32 + 128 + 8
    assert count_parameters(tiny).others == 4 * (attention + 8 + 8 * (2 * 128 + 128))
    assert count_parameters(tiny).idle_others == 4 * 6 * (2 * 128 + 128)


def test_a_multi_token_layer_adds_a_layer_a_projection_and_another_use_of_the_head():
    facts = model("deepseek_v3")
    more = replace(facts, multi_token_layers=1)
    before, after = count_parameters(facts), count_parameters(more)
    layer = before.attention // 61 + (before.experts + before.shared_experts + before.router) // 58
    assert after.multi_token == 2 * 7168 * 7168
    assert after.total - before.total == layer + after.multi_token + 5 * 7168 + 1536 + 512
    assert after.repeated_head == before.head
    gained = count_flops(more, Workload(seq_len=4096)).of("full").flops - at_4096("deepseek_v3").of("full").flops
    assert gained / 1e9 == pytest.approx(10, rel=0.1)
    assert sum(stage_parameters(more, 61)) == after.total + after.input_embedding


def test_stages_of_a_mixture_hold_their_own_layers():
    facts = model("deepseek_v2_lite")
    first, second, third = stage_parameters(facts, 3)
    assert first < second  # the dense layer is in the first stage
    assert second < third  # the head is larger than the last norm
    assert first + second + third == count_parameters(facts).total


@pytest.mark.parametrize("seq_len", [64, 128, 129, 4096])
def test_keys_of_a_window_are_those_that_the_mask_shows(seq_len):
    """A query sees itself and at most window - 1 tokens before; S / 2 stands for the mean of 1 to S."""
    facts = replace(model("gpt_oss_20b"), window=128, window_pattern=())
    shown = sum(min(position, 128) for position in range(1, seq_len + 1)) / seq_len
    per_key = 4 * facts.layers * facts.attention_heads * 64
    counted = sum(map(prod, attention_terms(facts, seq_len, "windowed", 1))) / per_key
    assert counted == pytest.approx(shown, rel=1.1 / min(seq_len, 128))


def test_windows_longer_than_the_sequence_change_nothing_and_models_without_have_no_such_convention():
    flops = count_flops(model("gemma3_12b"), Workload(seq_len=512))
    assert flops.of("windowed").flops == flops.of("causal").flops
    assert "windowed" not in {entry.convention for entry in at_4096("llama2_7b").per_token}


def test_the_nominal_convention_of_a_mixture_counts_its_active_parameters():
    entry = at_4096("qwen3_30b_a3b").of("nominal")
    assert entry.flops == 6 * 3e9
    assert entry.formula == "6 x 3,000,000,000"


@pytest.mark.parametrize("adapters", [None, 4_194_304])
@pytest.mark.parametrize("name", ["llama2_7b", "baichuan2_13b", "deepseek_v3", "gpt_oss_120b", "gemma3_27b"])
def test_formulas_compute_to_their_figure(name, adapters):
    for convention, again in product(known_conventions().values(), (False, True)):
        workload = Workload(seq_len=4096, gradient_checkpointing=again, lora_parameters=adapters)
        counted = flops_by(convention, model(name), workload)
        text = counted.formula.partition(";")[0].replace(",", "")
        text = re.sub(r"\((\d+) - (\d+)\)", lambda found: str(int(found[1]) - int(found[2])), text)
        value = sum(prod(float(factor) for factor in term.split(" x ")) for term in text.split(" + "))
        assert value == pytest.approx(counted.flops, rel=1e-9), counted.formula
