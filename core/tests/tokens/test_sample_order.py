"""Packing, order and sharding: every layout trains on the same samples in the same step."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf.tokens.draws import SampleOrder
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
