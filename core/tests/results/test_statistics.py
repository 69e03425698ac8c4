import random
from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf.results.statistics import quantile, step_statistics

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
