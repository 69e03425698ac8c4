"""Efficiency of scaling, and how sure it is."""

import numpy as np
import pytest
from llmperf_sweep.efficiency import Measured, ratio_interval, scaling_document, t_quantile


def measured(ranks, throughputs, share=1.0):
    return Measured(
        ranks=ranks,
        nodes=1,
        devices=ranks,
        global_batch=4 * ranks,
        device_share=share,
        throughputs=throughputs,
        runs=tuple(f"run-{number}" for number in range(len(throughputs))),
    )


def test_efficiency_is_throughput_by_rank_against_the_smallest_number_of_ranks():
    document = scaling_document(
        "default", "weak", [measured(2, (100.0, 102.0, 98.0)), measured(8, (80.0, 81.0, 79.0))], "X1"
    )
    two, eight = document.points
    assert (two.efficiency, two.speed_up, two.efficiency_low) == (1.0, 1.0, None)
    assert eight.tokens_per_second == pytest.approx(640)
    assert eight.efficiency == pytest.approx(0.8)
    assert (eight.speed_up, eight.ideal_speed_up) == (pytest.approx(3.2), 4)
    assert 0.75 < eight.efficiency_low < 0.8 < eight.efficiency_high < 0.85
    assert document.notes == ()


def test_notes_say_when_ranks_share_a_device_and_when_there_is_no_interval():
    document = scaling_document("default", "weak", [measured(1, (100.0,)), measured(2, (), 0.5)], "EPYC")
    assert document.points[1].efficiency is None
    shared, few = document.notes
    assert "the ranks of a node share one EPYC" in shared
    assert few == "no interval where there are less than 2 complete runs: 1, 2 ranks"


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(1, 12.7062), (2, 4.30265), (3, 3.18245), (4, 2.77645), (9, 2.26216), (30, 2.04227)]
)
def test_quantiles_of_student(degrees, quantile):
    assert t_quantile(degrees) == pytest.approx(quantile, rel=1e-5)


@pytest.mark.slow
def test_the_interval_holds_the_true_ratio_in_95_of_100_cases():
    draws = np.random.default_rng(7)
    for repeats in (3, 5):
        groups = draws.normal(1.0, 0.02, size=(4000, 2, repeats))
        intervals = [ratio_interval(list(ours * 0.8), list(theirs)) for ours, theirs in groups]
        covered = sum(low <= 0.8 <= high for low, high in intervals) / len(intervals)
        assert 0.945 < covered < 0.99


def test_runs_that_say_nothing_about_the_ratio_give_no_interval():
    assert ratio_interval([1.0], [1.0, 2.0]) is None
    assert ratio_interval([1.0, 1.1], [0.1, 5.0]) is None
    assert ratio_interval([2.0, 2.0], [4.0, 4.0]) == (0.5, 0.5)
