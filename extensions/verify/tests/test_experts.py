"""Loads of experts that do not add up, are not those of the tables, or that learned routing does not give."""

from dataclasses import replace

import pytest
from llmperf.files.json_files import convert
from llmperf.types import Mixture, Result
from llmperf.types.result import LayerLoad
from llmperf.validation.check import findings
from llmperf_verify.rules.experts import table_loads

CODES = {"LP230", "LP231", "LP232", "LP233", "LP234"}


@pytest.fixture
def result(example):
    """The example result of a mixture whose experts took the tokens of their tables."""
    result = convert(example, Result, "result")
    mixture = Mixture(experts=4, top_k=2, expert_width=8, dense_layers=1)
    contract = replace(result.contract, routing="skewed", routing_skew=1.2)
    model = replace(result.model, layers=4, mixture=mixture)
    sequences, loads = result.metrics.measured_steps * result.batch.global_batch, []
    for layer in range(1, 4):
        tokens = tuple(sequences * count for count in table_loads(contract, model, layer, result.batch.seq_len))
        loads.append(LayerLoad(layer=layer, tokens=tokens, imbalance=max(tokens) * 4 / sum(tokens)))
    return replace(result, contract=contract, model=model, expert_load=tuple(loads))


def codes(result):
    return {finding.code for finding in findings("result", result)} & CODES


def test_counts_that_do_not_add_up_or_left_the_table_are_found(result):
    assert codes(result) == set()
    first = result.expert_load[0]
    most, least = max(first.tokens), min(first.tokens)
    doubled = replace(first, tokens=tuple(2 * count for count in first.tokens))
    assert codes(replace(result, expert_load=(doubled, *result.expert_load[1:]))) == {"LP230", "LP232"}
    moved = replace(first, tokens=tuple({most: most - 1, least: least + 1}.get(count, count) for count in first.tokens))
    assert codes(replace(result, expert_load=(moved, *result.expert_load[1:]))) == {"LP231", "LP232"}
    learned = replace(result, contract=replace(result.contract, routing="learned", routing_skew=1.0))
    balance = replace(moved, imbalance=max(moved.tokens) * 4 / sum(moved.tokens))
    assert codes(replace(learned, expert_load=(balance, *result.expert_load[1:]))) == set()
    assert codes(replace(result, expert_load=result.expert_load[1:])) == {"LP230"}


def test_equal_loads_of_learned_routing_are_doubted(result):
    learned = replace(result, contract=replace(result.contract, routing="learned", routing_skew=1.0))
    mean = sum(result.expert_load[0].tokens) // 4
    equal = tuple(replace(load, tokens=(mean,) * 4, imbalance=1.0) for load in result.expert_load)
    assert codes(replace(learned, expert_load=equal)) == {"LP234"}
    assert codes(replace(learned, expert_load=(result.expert_load[0], *equal[1:]))) == set()
    every = replace(result.model, mixture=replace(result.model.mixture, top_k=4))
    assert "LP234" not in codes(replace(learned, model=every, expert_load=equal))


@pytest.mark.parametrize(
    "facts", [{"top_k": 9}, {"experts": 2**40}, {"experts": 1, "top_k": 1}, {"dense_layers": 2**50}, {"top_k": 2**50}]
)
@pytest.mark.parametrize("skew", [1.2, 1e300, 10.0])
def test_a_hostile_result_is_judged_all_the_same(result, facts, skew):
    mixture = replace(result.model.mixture, **facts)
    model = replace(result.model, mixture=mixture, layers=2**50)
    wrong = replace(result, model=model, contract=replace(result.contract, routing_skew=skew))
    assert "LP230" in codes(wrong)


def test_loads_of_a_complete_run_whose_routing_is_known_are_counted(result):
    uncounted = replace(result, expert_load=())
    assert codes(uncounted) == {"LP233"}
    assert codes(replace(uncounted, status="failed")) == set()
    learned = replace(result.contract, routing="learned", routing_skew=1.0)
    assert codes(replace(uncounted, contract=learned)) == set()
