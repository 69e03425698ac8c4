"""Packing, order and sharding: every layout trains on the same samples in the same step."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf.tokens.draws import SampleOrder, position
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


@given(*(st.integers(1, 5) for _ in range(3)), st.integers(0, 4))
def test_a_step_is_the_same_rows_for_every_layout(micro, accumulation, parallel, step):
    one = batch(micro, accumulation, parallel)
    seen = [
        position(one, step, micro_step, rank, row)
        for micro_step in range(accumulation)
        for rank in range(parallel)
        for row in range(micro)
    ]
    assert seen == list(range(step * one.global_batch, (step + 1) * one.global_batch))


@given(samples=st.integers(1, 200), seed=st.integers(0, 2**40))
@settings(max_examples=30)
def test_each_epoch_has_every_sample_once(samples, seed):
    order = SampleOrder(samples, seed)
    for epoch in range(2):
        assert sorted(order[epoch * samples + place] for place in range(samples)) == list(range(samples))


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
