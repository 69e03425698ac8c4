import random
from dataclasses import replace
from statistics import fmean, stdev
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf.errors import UserError
from llmperf.reporting.result_sheets import result_sheet
from llmperf.results.node_figures import waiting
from llmperf.results.statistics import kind_of, quantile, step_statistics
from llmperf.types import Change, ExpertsRecord, Layout, Mixture
from llmperf.validation.rules.conditions import no_stragglers, undisturbed

from .test_build import Folder

seconds = st.floats(min_value=1e-6, max_value=1e4)


@given(st.lists(seconds, min_size=1, max_size=300))
def test_statistics_are_in_order(values):
    found = step_statistics(values)
    assert min(values) <= found.p5 <= found.median <= found.p95 <= max(values)
    assert min(values) * (1 - 1e-9) <= found.mean <= max(values) * (1 + 1e-9)
    if len(values) < 20:
        assert found.mean_low is None
        assert found.mean_high is None
    else:
        assert found.mean_low <= found.mean <= found.mean_high


@given(st.lists(seconds, min_size=1, max_size=50), st.floats(0, 1))
def test_quantiles_are_those_of_numpy(values, part):
    assert quantile(sorted(values), part) == pytest.approx(float(np.quantile(values, part)), rel=1e-9)


def test_the_quantiles_of_many_steps_are_exact(monkeypatch):
    monkeypatch.setattr("llmperf.results.statistics.SORTED", 100)
    values = random.Random(1).choices(range(5000), k=1234)
    statistics = step_statistics(values)
    quantiles = [quantile(sorted(values), part) for part in (0.05, 0.5, 0.95)]
    assert [statistics.p5, statistics.median, statistics.p95] == quantiles


def mean_interval(seconds):
    statistics = step_statistics(seconds)
    return statistics.mean_low, statistics.mean_high


@settings(max_examples=5)
@given(st.integers(min_value=20, max_value=99))
def test_equal_steps_have_an_interval_of_no_width_and_no_steps_none(count):
    assert step_statistics([]) is None
    assert mean_interval([0.5] * count) == (0.5, 0.5)


def autocorrelated(rng, count, correlation):
    """Steps around 1 s, each like the one before."""
    value, values = 0.0, []
    for _ in range(count):
        value = correlation * value + rng.gauss(0, 0.02)
        values.append(1 + value)
    return values


def test_the_interval_holds_the_mean_where_steps_are_autocorrelated():
    rng = random.Random(7)
    runs = [autocorrelated(rng, 400, 0.8) for _ in range(300)]
    held = fmean(low <= 1.0 <= high for low, high in (mean_interval(run) for run in runs))
    naive = fmean(abs(fmean(run) - 1.0) <= 1.96 * np.std(run) / 20 for run in runs)
    assert held >= 0.88
    assert naive <= 0.65  # what an interval that takes steps for independent would have held


def test_no_step_is_left_out_of_the_interval():
    slow_start = [1.0] * 5 + [0.24] * 20
    low, high = mean_interval(slow_start)
    assert fmean(slow_start) == pytest.approx((low + high) / 2)
    assert high - low > 0.2
    assert mean_interval(slow_start[::-1])[1] == pytest.approx(high, rel=0.05)


@pytest.mark.parametrize("count", [20, 25, 29, 395])
def test_the_interval_holds_the_mean_95_times_of_100_whatever_the_number_of_steps(count):
    rng = random.Random(11)
    runs = [autocorrelated(rng, count, 0.0) for _ in range(1500)]
    held = fmean(low <= 1.0 <= high for low, high in (mean_interval(run) for run in runs))
    assert held == pytest.approx(0.95, abs=0.018)


def test_batches_of_equal_length_give_the_plain_batch_means_interval():
    values = autocorrelated(random.Random(3), 40, 0.5)
    means = [fmean(values[first : first + 4]) for first in range(0, 40, 4)]
    half = 2.262157 * stdev(means) / 10**0.5
    assert mean_interval(values) == pytest.approx((fmean(values) - half, fmean(values) + half), rel=1e-12)


def records_of(waits, window=100.0, nodes=2, **degrees):
    """What `waiting` reads of a run whose ranks waited that long."""
    degrees = {"tensor_parallel": 1, "pipeline_parallel": 1, "data_parallel": len(waits)} | degrees
    layout = Layout(nodes=nodes, devices_per_node=len(waits) // nodes, **degrees)
    ranks = [SimpleNamespace(rank=rank, window_seconds=window, communication_seconds=wait)
             for rank, wait in enumerate(waits)]  # fmt: skip
    return SimpleNamespace(ranks=ranks, plan=SimpleNamespace(layout=layout))


def test_a_slow_rank_is_the_one_that_waits_least():
    found = waiting(records_of([41.0, 40.0, 5.0, 40.5]))
    (straggler,) = found.stragglers
    assert (straggler.rank, straggler.node_rank, straggler.busy_seconds) == (2, 1, 95.0)
    assert straggler.lag_seconds == pytest.approx(35.5)
    assert found.cost_seconds == pytest.approx(35.0)  # the slowest other rank was busy for 60 s
    assert found.slow_nodes == ()
    assert found.share == pytest.approx((0.41 + 0.40 + 0.05 + 0.405) / 4)
    assert (found.least_share, found.most_share) == (0.05, 0.41)


def test_a_node_whose_ranks_are_all_slow_is_named():
    found = waiting(records_of([40.0, 40.1, 5.0, 6.0]))
    assert [straggler.rank for straggler in found.stragglers] == [2, 3]
    assert found.slow_nodes == (1,)
    assert found.cost_seconds == pytest.approx(35.0)


@pytest.mark.parametrize("waits", [[10.0, 10.0, 10.0, 10.0], [10.0, 12.0, 9.0, 11.0], [0.0] * 4, [50.0, 54.0, 46, 42]])
def test_ranks_that_are_much_alike_have_no_straggler(waits):
    found = waiting(records_of(waits))
    assert (found.stragglers, found.cost_seconds) == ((), 0.0)


def test_ranks_of_different_pipeline_stages_are_not_compared():
    """The last stage also computes the loss, and is busy for longer."""
    found = waiting(records_of([40.0, 40.0, 10.0, 10.0], pipeline_parallel=2, data_parallel=2))
    assert found.stragglers == ()


@pytest.mark.parametrize("waits", [[10.0, None], [None, None], [10.0]])
def test_stragglers_are_unknown_unless_every_rank_measured_its_waits(waits):
    assert waiting(records_of(waits, nodes=1)) is None


def test_a_result_lists_few_of_many_stragglers():
    found = waiting(records_of([90.0] * 2000 + [10.0] * 200, nodes=100))
    assert (len(found.stragglers), found.more_stragglers) == (64, 136)
    assert len(found.slow_nodes) == 9


def test_waits_of_a_recorded_run_reach_its_result(tmp_path, stub_plan):
    from .test_node_results import TwoNodes

    folder = TwoNodes(tmp_path / "run", stub_plan(steps=6, warmup_steps=1))
    of = folder.of
    folder.of = lambda rank: (
        replace(record, communication_seconds=0.1 if rank == 3 else 2.0) if record.kind == "rank" else record
        for record in of(rank)
    )
    result = folder.build()
    assert [straggler.rank for straggler in result.waiting.stragglers] == [3]
    assert result.waiting.cost_seconds == pytest.approx(1.9)


def result_with(shares, straggling=(1,)):
    """What rules read of a run on two nodes, whose hosts others used for these shares."""
    stragglers = tuple(SimpleNamespace(rank=2 * node, node_rank=node) for node in straggling)
    nodes = [SimpleNamespace(node_rank=node, other_cpu_share=share, programs={}) for node, share in enumerate(shares)]
    return SimpleNamespace(
        hardware=SimpleNamespace(nodes=2),
        conditions=nodes,
        waiting=SimpleNamespace(stragglers=stragglers, more_stragglers=0, cost_seconds=22.0),
        metrics=SimpleNamespace(window_seconds=100.0, other_cpu_share=max(shares), other_processes=0),
    )


def test_a_straggler_on_a_host_that_others_used_is_in_the_message_on_that_host():
    result = result_with((0.01, 0.47))
    assert list(no_stragglers.check(result)) == []
    ((_, message),) = undisturbed.check(result)
    assert message == (
        "other processes used 47 % of the host's cores during the run, expected at most 10 %; the others waited for"
        " rank 2 on node 1 there, which may have cost 22 % of the measured window; run again when the host is idle:"
        " --wait-until-idle"
    )


def test_a_straggler_on_a_quiet_host_keeps_a_message_of_its_own():
    for result in (result_with((0.47, 0.01)), result_with((0.01, 0.02)), result_with((0.01, 0.47), (0, 1))):
        ((_, message),) = no_stragglers.check(result)
        assert "the others waited, which may have cost 22 % of the measured window" in message
        assert all("the others waited" not in message for _, message in undisturbed.check(result))


@pytest.fixture
def plan(stub_plan):
    plan = stub_plan(steps=6, warmup_steps=1)
    mixture = Mixture(experts=4, top_k=2, expert_width=8, dense_layers=1)
    contract = replace(plan.spec.contract, routing="skewed", routing_skew=1.2)
    model = replace(plan.spec.model, layers=4, mixture=mixture)
    return replace(plan, spec=replace(plan.spec, model=model, contract=contract))


COUNTS = ((9, 7, 3, 1), (8, 6, 4, 2), (5, 5, 5, 5))
"""Tokens of a rank's experts, by layer."""


def built(run, plan, layers_of):
    """The result of a run whose ranks record these counts; None: a rank records none."""
    folder = Folder(run, plan)
    folder.extra = {rank: [ExpertsRecord(rank=rank, layers=layers) for layers in layers_of(rank)] for rank in range(2)}
    return folder.build()


def test_loads_are_summed_over_ranks_and_shown(tmp_path, plan):
    result = built(tmp_path / "run", plan, lambda rank: [COUNTS])
    assert [load.layer for load in result.expert_load] == list(range(1, plan.spec.model.layers))
    assert result.expert_load[0].tokens == tuple(2 * count for count in COUNTS[0])
    assert result.expert_load[0].imbalance == 1.8
    sheet = result_sheet(result)
    rows = {row.key: row for section in sheet.sections() for row in section.rows}
    assert rows["routing"].text == "skewed, exponent 1.2"
    assert f"in layer {max(result.expert_load, key=lambda load: load.imbalance).layer}" in rows["expert_imbalance"].text
    assert sheet.contract["routing"] == "skewed"


def test_loads_that_only_some_ranks_count_are_unknown(tmp_path, plan):
    result = built(tmp_path / "run", plan, lambda rank: [COUNTS] * (rank == 0))
    assert result.expert_load == ()
    assert any("does not count the tokens of experts" in note for note in result.notes)
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
        built(tmp_path / "run", plan, lambda rank: [COUNTS] * 2 if layers is None else layers)


def test_a_dense_model_has_no_expert_load(tmp_path, stub_plan):
    with pytest.raises(UserError, match="expected none of this rank by the plan"):
        built(tmp_path / "run", stub_plan(steps=6, warmup_steps=1), lambda rank: [((1, 2),)])


def test_two_routings_are_two_contracts(tmp_path, plan):
    result = built(tmp_path / "run", plan, lambda rank: [])
    change = Change(path="contract.routing_skew", case_value=1.2, value=1.3, origin="--set")
    other = replace(result, contract=replace(result.contract, routing_skew=1.3), fix_hp=(change,))
    assert kind_of(result) != kind_of(other)
    assert result_sheet(result).contract != result_sheet(other).contract
