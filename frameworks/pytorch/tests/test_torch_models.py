"""The models: their sizes, their names, their mathematics."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf.accounting.parameters import count_parameters
from llmperf.cases.library import library, whole_library
from llmperf_pytorch import attention
from llmperf_pytorch.attention import block_mask, eager_attention, flex_attention
from llmperf_pytorch.decoder.model import Block
from llmperf_pytorch.decoder.positions import alibi_slopes, causal_alibi
from llmperf_pytorch.models import build_model, construct_model
from llmperf_torchkit import weights
from llmperf_torchkit.losses import mean_cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.slow

PUBLISHED = ("aquila2_7b", "baichuan2_7b", "baichuan2_13b", "llama1_13b", "llama2_70b", "llama3_8b", "llama_tiny")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def task(**model):
    return {"framework": "pytorch", "model": model}


@pytest.mark.parametrize("name", PUBLISHED)
def test_as_many_parameters_as_the_facts_give(program, name):
    facts = library().model(name)
    with torch.device("meta"):
        model = construct_model(replace(program.make_spec(task()), model=facts))
    assert sum(parameter.numel() for parameter in model.parameters()) == count_parameters(facts).total


def every_attention(program):
    """Specs of all families by all ways to compute attention."""
    alibi = {**program.BAICHUAN, "position_encoding": "alibi"}
    for facts in ({}, {"kv_heads": 4}, program.BAICHUAN, alibi):
        ways = ("eager", "sdpa") if facts is alibi else ("eager", "sdpa", "flash", "auto")
        yield [program.make_spec({**task(**facts), "tuning": {"attention": way}}) for way in ways]


def test_attention_is_the_same_in_every_way(program):
    tokens = torch.randint(0, 512, (2, 33))
    for specs in every_attention(program):
        first, *others = [build_model(spec, torch.device("cpu"))(tokens) for spec in specs]
        for other in others:
            torch.testing.assert_close(first, other, atol=2e-5, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_is_the_same_without_a_bias_in_memory():
    """Forward only: on a CPU torch has no backward pass of it."""
    slopes, places = alibi_slopes(8), torch.arange(200)
    distance = places[:, None] - places[None, :]
    window = torch.zeros(200, 200).masked_fill((distance < 0) | (distance >= 50), -math.inf)[None, None]
    query, key, value = torch.randn(2, 8, 200, 16), torch.randn(2, 2, 200, 16), torch.randn(2, 2, 200, 16)
    for flex, bias in (
        ({}, None),
        ({"slopes": slopes}, causal_alibi(slopes, 200, torch.float32)),
        ({"window": 50}, window),
    ):
        expected = eager_attention(query, key, value, bias)
        mask = block_mask(200, flex.pop("window", None), query.device)
        torch.testing.assert_close(flex_attention(query, key, value, mask, **flex), expected)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_a_model_makes_its_block_masks_once_a_pass_and_outside_of_its_blocks(program, monkeypatch):
    made, inside, make, forward = [], [], attention.block_mask, Block.forward

    def counted(seq_len, window, device):
        assert not inside
        made.append(window)
        return make(seq_len, window, device)

    def entered(block, *arguments):
        inside.append(block)
        try:
            return forward(block, *arguments)
        finally:
            inside.pop()

    monkeypatch.setattr(attention, "block_mask", counted)
    monkeypatch.setattr(Block, "forward", entered)
    facts = {"window": 8, "window_pattern": ["window", "full"], "layers": 4}
    tokens = torch.randint(0, 512, (1, 32))
    flex, sdpa = (
        build_model(program.make_spec({**task(**facts), "tuning": {"attention": way}}), torch.device("cpu"))
        for way in ("flex", "sdpa")
    )
    with torch.no_grad():
        torch.testing.assert_close(flex(tokens), sdpa(tokens), atol=2e-5, rtol=1e-4)
    assert made == [None, 8]


def test_the_host_never_asks_the_device_for_a_value(program):
    class Waits(TorchDispatchMode):
        found = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.found += func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
            return func(*args, **(kwargs or {}))

    tokens = torch.randint(0, 512, (1, 33))
    for spec in [spec for specs in every_attention(program) for spec in specs]:
        model = build_model(spec, torch.device("cpu"))
        with Waits() as waits:
            mean_cross_entropy(model(tokens[:, :-1]), tokens[:, 1:]).backward()
        assert waits.found == 0, spec.tuning.attention


def test_alibi_slopes_are_the_published_ones():
    assert alibi_slopes(8).tolist() == [2.0**-k for k in range(1, 9)]
    forty = alibi_slopes(40).tolist()
    assert forty[:32] == pytest.approx([2 ** (-(k + 1) / 4) for k in range(32)])
    assert forty[32:] == pytest.approx([2 ** (-(2 * k + 1) / 8) for k in range(8)])
    bias = causal_alibi(alibi_slopes(8), 3, torch.float32)
    assert bias[0, 1].tolist() == [[0, -math.inf, -math.inf], [-0.25, 0, -math.inf], [-0.5, -0.25, 0]]


PARAMETERS = {
    "model.layers.0.self_attn.q_proj.weight": (7, 11),
    "model.layers.0.mlp.experts.gate_proj": (3, 4, 5),
    "model.layers.0.input_layernorm.weight": (13,),
}


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(PARAMETERS)), ranks=st.integers(1, 9), chunk=st.integers(1, 80))
def test_ranks_that_draw_their_own_shards_draw_the_whole_parameter(name, ranks, chunk):
    shape, facts = PARAMETERS[name], whole_library().model("mixtral_tiny")
    whole = torch.full(shape, torch.nan)
    weights.fill_parameter(name, whole, facts, seed=3)
    each = -(-whole.numel() // ranks)
    shards = torch.full((ranks, each), torch.nan)
    before, weights.CHUNK = weights.CHUNK, chunk
    try:
        for rank, shard in enumerate(shards):
            weights.fill_slice(name, shape, shard, rank * each, facts, seed=3)
    finally:
        weights.CHUNK = before
    drawn = shards.flatten()
    assert torch.equal(drawn[: whole.numel()], whole.flatten())
    assert drawn[whole.numel() :].isnan().all()
