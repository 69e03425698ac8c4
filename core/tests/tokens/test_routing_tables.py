"""Tables that route tokens to experts: distinct, balanced or skewed, and as recorded."""

from dataclasses import replace
from itertools import pairwise
from math import gcd

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf import ROUTING_ROWS, library, routing_table
from llmperf.accounting.routing import routing_loads
from llmperf.types import Mixture

MODEL = library().model("qwen3_moe_tiny")
EXPERTS = st.integers(1, 300).flatmap(lambda experts: st.tuples(st.just(experts), st.integers(1, min(experts, 12))))
SKEWS = st.floats(0, 9.99)
BALANCED = [[7, 1], [3, 5], [0, 4], [6, 2]]
SKEWED = [[7, 4], [7, 3], [7, 4], [7, 0]]
LOADS = [3014, 1507, 1005, 753, 603, 502, 431, 377]


def mixture_of(experts, top_k):
    return Mixture(experts=experts, top_k=top_k, expert_width=8)


def table_of(experts, top_k, routing, *, skew=1.0, seed=0, layer=0):
    return routing_table(seed, replace(MODEL, mixture=mixture_of(experts, top_k)), layer, routing, skew)


def loads_of(rows, experts):
    return np.bincount(rows.ravel(), minlength=experts)


@given(sizes=EXPERTS, routing=st.sampled_from(["balanced", "skewed"]), skew=SKEWS, seed=st.integers(0, 2**53))
@settings(max_examples=40, deadline=None)
def test_each_row_has_distinct_experts_of_the_model(sizes, routing, skew, seed):
    table = table_of(*sizes, routing, skew=skew, seed=seed)
    assert table.dtype == np.int64
    assert table.shape == (ROUTING_ROWS, sizes[1])
    assert table.min() >= 0
    assert table.max() < sizes[0]
    assert (np.diff(np.sort(table, axis=1), axis=1) > 0).all()


@given(sizes=EXPERTS, first=st.integers(0, 3000), rows=st.integers(1, 1000), layer=st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_balanced_rows_take_all_experts_equally_often(sizes, first, rows, layer):
    experts, top_k = sizes
    table, period = table_of(*sizes, "balanced", layer=layer), experts // gcd(experts, top_k)
    assert set(loads_of(table[first : first + period], experts)) == {period * top_k // experts}
    assert np.ptp(loads_of(table[first : first + rows], experts)) <= 1


@pytest.mark.slow
@given(sizes=EXPERTS, skew=SKEWS, layer=st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_skewed_loads_follow_zipf_up_to_all_rows(sizes, skew, layer):
    experts, top_k = sizes
    loads = np.sort(loads_of(table_of(*sizes, "skewed", skew=skew, layer=layer), experts))[::-1]
    assert tuple(loads) == routing_loads(mixture_of(*sizes), "skewed", skew)
    below = int((loads == ROUTING_ROWS).sum())
    law = np.arange(below + 1, experts + 1, dtype=float) ** -skew
    expected = law / law.sum() * (ROUTING_ROWS * top_k - below * ROUTING_ROWS) if law.size else law
    assert np.abs(loads[below:] - expected).max(initial=0) < 1 + 1e-6


@pytest.mark.slow
@given(sizes=EXPERTS, skews=st.tuples(SKEWS, SKEWS))
@settings(max_examples=60, deadline=None)
def test_a_higher_exponent_never_lowers_the_largest_load(sizes, skews):
    lower, higher = (routing_loads(mixture_of(*sizes), "skewed", skew)[0] for skew in sorted(skews))
    assert lower <= higher + 1
    assert sum(routing_loads(mixture_of(*sizes), "skewed", skews[0])) == ROUTING_ROWS * sizes[1]


def test_layers_and_seeds_have_tables_of_their_own():
    tables = [table_of(64, 6, "skewed", layer=layer, seed=seed) for layer in (0, 1) for seed in (0, 1)]
    popular = {int(loads_of(table, 64).argmax()) for table in tables}
    assert len(popular) > 1
    assert not any((left == right).all() for left, right in pairwise(tables))


def test_tables_are_the_recorded_ones():
    assert table_of(8, 2, "balanced", seed=3, layer=1)[:4].tolist() == BALANCED
    skewed = table_of(8, 2, "skewed", seed=3, layer=1)
    assert skewed[:4].tolist() == SKEWED
    assert sorted(loads_of(skewed, 8), reverse=True) == LOADS
    assert routing_loads(mixture_of(60, 4), "skewed", 0.0) == routing_loads(mixture_of(60, 4), "balanced", 1.0)


def test_no_table_without_experts_or_for_learned_routing():
    with pytest.raises(ValueError, match="learned"):
        table_of(8, 2, "learned")
    with pytest.raises(ValueError, match="no table"):
        routing_table(0, library().model("llama_tiny"), 0, "balanced", 1.0)
