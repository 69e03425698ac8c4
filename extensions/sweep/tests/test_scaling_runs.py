"""The runs that `--scale` asks for."""

import pytest
from llmperf.cli.main import call
from llmperf.errors import Refused, UserError
from llmperf.planning.states import Request, Selection
from llmperf.running.measure import Series
from llmperf.types import RunChoice
from llmperf_sweep.scaling_runs import parse_scale, scaling_runs


@pytest.fixture
def scaled(stub_site):
    """A function that plans a scaling measurement of the stub with further settings."""

    def runs(settings, *scale, **known):
        choice = RunChoice(case="default", vendor="stub", framework="stub", settings=settings, **known)
        return scaling_runs(Series(Request(Selection("default")), print), choice, *scale)

    return runs


def batches(runs):
    """Ranks, global batch, micro batch and accumulation of each plan."""
    batches = [(plan.layout.world_size, plan.batch) for plan in runs[1]]
    return [(ranks, batch.global_batch, batch.micro_batch, batch.gradient_accumulation) for ranks, batch in batches]


def test_weak_scaling_keeps_what_each_rank_does(scaled):
    runs = scaled({"contract.global_batch": 8}, "4,1,2", "weak", 3)
    assert batches(runs) == [(1, 8, 2, 4), (2, 16, 2, 4), (4, 32, 2, 4)]
    assert [cell.devices for cell in runs[0].cells] == [1, 2, 4]
    assert (runs[0].repeats, runs[0].order) == (3, "shuffled")


def test_strong_scaling_keeps_the_global_batch(scaled):
    runs = scaled({"contract.global_batch": 8}, "1,2,4", "strong", 3)
    assert batches(runs) == [(1, 8, 2, 4), (2, 8, 2, 2), (4, 8, 2, 1)]


def test_accumulation_that_is_set_is_kept_by_weak_and_refused_by_strong_scaling(scaled):
    runs = scaled({"tuning.gradient_accumulation": 3}, "1,2", "weak", 1)
    assert batches(runs) == [(1, 6, 2, 3), (2, 12, 2, 3)]
    with pytest.raises(UserError, match="set only one of the two"):
        scaled({"tuning.gradient_accumulation": 3}, "1,3", "strong", 1)


@pytest.mark.parametrize(
    ("scale", "settings", "message"),
    [
        ("1,8", {"contract.global_batch": 8}, "--scale 8: global batch 8 is not a multiple of micro batch 2 x data"
         " parallel 8, as strong scaling needs; the nearest number of ranks is 4"),
        ("2,3", {"tuning.tensor_parallel": 2}, "--scale 3: expected a multiple of the 2 ranks that share a copy of the"
         " model; the nearest are 2 and 4"),
    ],
)  # fmt: skip
def test_numbers_that_do_not_divide_name_the_nearest_that_do(scaled, scale, settings, message):
    with pytest.raises(UserError) as error:
        scaled(settings, scale, "strong", 3)
    assert message in str(error.value)


@pytest.mark.parametrize("text", ["1", "", "1,1", "0,1", "a,b", "hosts=1,2", "1,2,", "-1,2"])
def test_scale_is_a_list_of_different_numbers(text):
    with pytest.raises(UserError, match="--scale: expected"):
        parse_scale(text)


def test_numbers_are_of_ranks_or_of_nodes():
    assert parse_scale("4, 1,2") == ("ranks", (1, 2, 4))
    assert parse_scale("nodes=2,1") == ("nodes", (1, 2))


def test_devices_with_numbers_of_ranks_are_refused(scaled):
    with pytest.raises(UserError, match="--devices: expected without --scale 1,2"):
        scaled({}, "1,2", "weak", 1, devices=2)


def test_more_nodes_than_there_are_is_a_problem_of_the_plan(scaled):
    with pytest.raises(Refused) as error:
        scaled({}, "nodes=1,2", "weak", 1)
    assert "2 nodes asked for, 1 here" in str(error.value)


def test_scaling_belongs_to_scale(stub_site, capsys):
    assert call(["run", "default", "--vendor", "stub", "--framework", "stub", "--scaling", "strong", "--dry-run"]) == 2
    assert "--scaling belongs to --scale" in capsys.readouterr().err
