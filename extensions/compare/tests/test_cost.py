"""Cost of a training: its arithmetic."""

import math

from hypothesis import given
from hypothesis import strategies as st
from llmperf_compare.cost import Rates, cost_of

POSITIVE = st.floats(min_value=1e-6, max_value=1e9)
MAYBE = st.none() | POSITIVE


def close(first, second):
    return math.isclose(first, second, rel_tol=1e-9)


@given(speed=POSITIVE, devices=POSITIVE, joules=POSITIVE, tokens=POSITIVE, price=POSITIVE, kwh=POSITIVE)
def test_figures_agree_with_each_other(speed, devices, joules, tokens, price, kwh):
    rates = Rates(tokens_per_second_per_device=speed, devices=devices, joules_per_token=joules)
    cost = cost_of(rates, tokens=tokens, per_device_hour=price, per_kwh=kwh)
    assert close(cost.money, cost.per_million_tokens * tokens / 1e6)
    assert close(cost.seconds * devices / 3600, cost.device_hours)
    assert close(cost.energy_kwh * 3.6e6, joules * tokens)
    twice = cost_of(rates, tokens=2 * tokens, per_device_hour=price, per_kwh=kwh)
    assert close(twice.money, 2 * cost.money)
    assert close(twice.electricity, 2 * cost.electricity)
    assert twice.per_million_tokens == cost.per_million_tokens


@given(speed=MAYBE, devices=MAYBE, joules=MAYBE, tokens=MAYBE, price=MAYBE, kwh=MAYBE)
def test_what_depends_on_something_unknown_is_unknown(speed, devices, joules, tokens, price, kwh):
    rates = Rates(tokens_per_second_per_device=speed, devices=devices, joules_per_token=joules)
    cost = cost_of(rates, tokens=tokens, per_device_hour=price, per_kwh=kwh)
    needs = {
        "per_million_tokens": (speed, price),
        "device_hours": (speed, tokens),
        "seconds": (speed, tokens, devices),
        "money": (speed, tokens, price),
        "energy_kwh": (joules, tokens),
        "electricity": (joules, tokens, kwh),
    }
    for name, needed in needs.items():
        assert (getattr(cost, name) is None) == (None in needed), name


def test_a_run_without_throughput_has_no_cost():
    rates = Rates(tokens_per_second_per_device=0.0, devices=8, joules_per_token=None)
    cost = cost_of(rates, tokens=1e9, per_device_hour=1.0)
    assert cost.per_million_tokens is cost.device_hours is cost.seconds is cost.money is None
