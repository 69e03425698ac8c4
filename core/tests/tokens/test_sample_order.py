"""Packing, order and sharding: every layout trains on the same samples in the same step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf import library
from llmperf.tokens.draws import SampleOrder, decays, initial_constant, initial_normal, raw_uint64
from llmperf.tokens.sources import SyntheticTokens
from llmperf.types import Batch


def batch(micro, accumulation, parallel, seq_len=8):
    rows = micro * accumulation * parallel
    return Batch(
        micro_batch=micro,
        gradient_accumulation=accumulation,
        data_parallel=parallel,
        global_batch=rows,
        seq_len=seq_len,
        tokens_per_step=rows * seq_len,
    )


def test_epochs_and_seeds_differ_and_repeat_exactly():
    def epochs(seed):
        order = SampleOrder(100, seed)
        return [order[place] for place in range(200)]

    assert epochs(1) == epochs(1)
    assert epochs(1)[:100] != epochs(1)[100:]
    assert epochs(1) != epochs(2)


def test_synthetic_text_is_the_recorded_one():
    expected = [12, 25, 80, 63, 57, 5, 58, 53, 75, 1, 56, 85, 92]
    assert SyntheticTokens(100, 12, 0).at(3).tolist() == expected


def test_synthetic_text_has_the_entropy_it_says():
    from llmperf.tokens import known_entropy

    vocab, source = 50, SyntheticTokens(50, 4000, 3)
    pairs = np.zeros((vocab, vocab))
    for index in range(100):
        tokens = source.at(index)
        np.add.at(pairs, (tokens[:-1], tokens[1:]), 1)
    conditional = pairs / pairs.sum(axis=1, keepdims=True)
    logs = np.log(conditional, out=np.zeros_like(conditional), where=conditional > 0)
    measured = -(pairs / pairs.sum() * logs).sum()
    assert abs(measured - known_entropy("synthetic")) < 0.005
    assert known_entropy("synthetic") == 1.984375 * np.log(2)
    assert known_entropy("samsum") is None


@given(index=st.integers(0, 2**40), vocab=st.integers(8, 70000), seq_len=st.integers(1, 70))
@settings(max_examples=40)
def test_any_synthetic_sequence_can_be_had_alone(index, vocab, seq_len):
    tokens = SyntheticTokens(vocab, seq_len, 5).at(index)
    assert tokens.dtype == np.int64
    assert tokens.shape == (seq_len + 1,)
    assert 0 <= tokens.min() <= tokens.max() < vocab
    assert (SyntheticTokens(vocab, seq_len, 5).at(index) == tokens).all()


NAMES = st.sampled_from(["lm_head.weight", "model.layers.3.mlp.up_proj.weight", "ü"])


def test_words_are_the_recorded_ones():
    first = [7793763174529942601, 8199357803247599294, 15694760944295190838]
    assert raw_uint64(0, "golden", 0, 3).tolist() == first
    assert raw_uint64(7, "golden", 1001, 1003).tolist() == [13968942736153276324, 511633241654163376]


def test_weights_are_the_recorded_ones():
    weights = initial_normal(0, "model.embed_tokens.weight", (2, 2), 0.02)
    assert weights.dtype == np.float32
    with pytest.raises(ValueError, match="has 4 elements"):
        initial_normal(0, "model.embed_tokens.weight", (2, 2), 0.02, 0, 5)
    assert [[value.hex() for value in row] for row in weights.tolist()] == [
        ["-0x1.c02f7a0000000p-6", "-0x1.343c5a0000000p-6"],
        ["-0x1.c75f9c0000000p-7", "-0x1.0d938e0000000p-9"],
    ]


@given(seed=st.integers(0, 2**70), name=NAMES, cut=st.tuples(st.integers(0, 3000), st.integers(0, 3000)))
@settings(max_examples=60, deadline=None)
def test_a_slice_is_that_part_of_the_whole(seed, name, cut):
    start, stop = sorted(cut)
    assert (raw_uint64(seed, name, 0, 3000)[start:stop] == raw_uint64(seed, name, start, stop)).all()
    whole = initial_normal(seed, name, (30, 100), 0.02)
    assert whole.shape == (30, 100)
    assert (whole.ravel()[start:stop] == initial_normal(seed, name, (30, 100), 0.02, start, stop)).all()


def test_threads_change_nothing(monkeypatch):
    shape, cut = (1 << 20,), (5, (1 << 20) - 7)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    many = initial_normal(3, "w", shape, 1.0, *cut)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert (initial_normal(3, "w", shape, 1.0)[cut[0] : cut[1]] == many).all()


def test_moments_are_those_of_a_normal_without_tails():
    drawn = initial_normal(11, "w", (1000, 1000), 0.02).astype(np.float64)
    assert abs(drawn.mean()) < 5 * 0.02 / 1000
    assert drawn.std() == pytest.approx(0.02, rel=0.003)
    assert np.abs(drawn).max() < 3.4642 * 0.02
    assert (drawn**4).mean() / drawn.var() ** 2 == pytest.approx(2.7, abs=0.02)


def test_names_seeds_and_neighbours_are_unrelated():
    streams = [initial_normal(s, n, (100_000,), 1.0) for s in (0, 1) for n in ("a", "b")]
    streams.append(initial_normal(0, "a", (100_001,), 1.0)[1:])
    related = np.corrcoef(np.stack(streams)) - np.eye(len(streams))
    assert np.abs(related).max() < 0.02


@pytest.mark.parametrize(
    ("name", "constant"),
    [
        ("model.norm.weight", 1.0),
        ("model.layers.0.self_attn.q_norm.weight", 1.0),
        ("model.layers.0.self_attn.q_proj.bias", 0.0),
        ("model.layers.0.mlp.experts.gate_proj_bias", 0.0),
        ("model.layers.0.self_attn.sinks", 0.0),
        ("model.layers.0.mlp.router.weight", None),
        ("model.layers.0.mlp.experts.gate_proj", None),
        ("lm_head.weight", None),
    ],
)
def test_norms_biases_and_sinks_begin_at_a_constant_and_do_not_decay(name, constant):
    model = library().model("gpt_oss_tiny")
    assert initial_constant(name, model) == constant
    assert decays(name) == (constant is None)
    assert initial_constant("model.norm.weight", library().model("gemma3_tiny")) == 0.0  # 1 is added to it
