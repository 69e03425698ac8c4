"""The load of experts in a result: summed over ranks, reported, and checked against the contract."""

from dataclasses import replace

import pytest
from llmperf.errors import UserError
from llmperf.reporting.result_sheets import result_sheet
from llmperf.results.statistics import kind_of
from llmperf.tokens.draws import table_loads
from llmperf.types import Change, ExpertsRecord, Mixture
from llmperf.validation.check import findings

from .test_build import Folder

CODES = {"LP230", "LP231", "LP232", "LP233", "LP234"}


@pytest.fixture
def plan(stub_plan):
    plan = stub_plan(steps=6, warmup_steps=1)
    mixture = Mixture(experts=4, top_k=2, expert_width=8, dense_layers=1)
    contract = replace(plan.spec.contract, routing="skewed", routing_skew=1.2)
    model = replace(plan.spec.model, layers=4, mixture=mixture)
    return replace(plan, spec=replace(plan.spec, model=model, contract=contract))


def built(run, plan, layers_of):
    """The result of a run whose ranks record these counts; None: a rank records none."""
    folder = Folder(run, plan)
    folder.extra = {rank: [ExpertsRecord(rank=rank, layers=layers) for layers in layers_of(rank)] for rank in range(2)}
    return folder.build()


def by_table(plan):
    """What each rank's experts take of 5 steps by the tables."""
    contract, batch = plan.spec.contract, plan.batch
    sequences = 5 * batch.global_batch // 2
    return tuple(
        tuple(sequences * count for count in table_loads(contract.seed, plan.spec.model, layer, "skewed",
                                                         contract.routing_skew, batch.seq_len))
        for layer in range(1, plan.spec.model.layers)
    )  # fmt: skip


def codes(result):
    return {finding.code for finding in findings("result", result)} & CODES


def test_loads_are_summed_over_ranks_and_shown(tmp_path, plan):
    counts = by_table(plan)
    result = built(tmp_path / "run", plan, lambda rank: [counts])
    assert [load.layer for load in result.expert_load] == list(range(1, plan.spec.model.layers))
    assert result.expert_load[0].tokens == tuple(2 * count for count in counts[0])
    assert result.expert_load[0].imbalance == pytest.approx(4 * max(counts[0]) / sum(counts[0]))
    assert codes(result) == set()
    sheet = result_sheet(result)
    rows = {row.key: row for section in sheet.sections() for row in section.rows}
    assert rows["routing"].text == "skewed, exponent 1.2"
    assert f"in layer {max(result.expert_load, key=lambda load: load.imbalance).layer}" in rows["expert_imbalance"].text
    assert sheet.contract["routing"] == "skewed"


def test_counts_that_do_not_add_up_or_left_the_table_are_found(tmp_path, plan):
    result = built(tmp_path / "run", plan, lambda rank: [by_table(plan)])
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


def test_equal_loads_of_learned_routing_are_doubted(tmp_path, plan):
    result = built(tmp_path / "run", plan, lambda rank: [by_table(plan)])
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
def test_a_hostile_result_is_judged_all_the_same(tmp_path, plan, facts, skew):
    result = built(tmp_path / "run", plan, lambda rank: [by_table(plan)])
    mixture = replace(result.model.mixture, **facts)
    model = replace(result.model, mixture=mixture, layers=2**50)
    wrong = replace(result, model=model, contract=replace(result.contract, routing_skew=skew))
    assert "LP230" in codes(wrong)


def test_loads_that_only_some_ranks_count_are_unknown(tmp_path, plan):
    result = built(tmp_path / "run", plan, lambda rank: [by_table(plan)] * (rank == 0))
    assert result.expert_load == ()
    assert any("does not count the tokens of experts" in note for note in result.notes)
    assert codes(replace(result, status="complete")) == {"LP233"}
    assert codes(replace(result, status="failed")) == set()
    learned = replace(result.contract, routing="learned", routing_skew=1.0)
    assert codes(replace(result, status="complete", contract=learned)) == set()
    assert "expert_imbalance" not in {row.key for section in result_sheet(result).sections() for row in section.rows}


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([((1, 2, 3),)], "layers of 4 counts, found others"),
        ([((1, 2, 3, 4),)], "layers of 4 counts, found others"),
        (None, "expected one record, found several"),
    ],
)
def test_records_that_do_not_fit_the_plan_are_refused(tmp_path, plan, layers, message):
    with pytest.raises(UserError, match=message):
        built(tmp_path / "run", plan, lambda rank: [by_table(plan)] * 2 if layers is None else layers)


def test_a_dense_model_has_no_expert_load(tmp_path, stub_plan):
    with pytest.raises(UserError, match="expected none of this rank by the plan"):
        built(tmp_path / "run", stub_plan(steps=6, warmup_steps=1), lambda rank: [((1, 2),)])


def test_two_routings_are_two_contracts(tmp_path, plan):
    result = built(tmp_path / "run", plan, lambda rank: [])
    change = Change(path="contract.routing_skew", case_value=1.2, value=1.3, origin="--set")
    other = replace(result, contract=replace(result.contract, routing_skew=1.3), fix_hp=(change,))
    assert kind_of(result) != kind_of(other)
    assert result_sheet(result).contract != result_sheet(other).contract
