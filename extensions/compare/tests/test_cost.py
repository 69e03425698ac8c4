"""Cost of a training: its arithmetic."""

from hypothesis import given
from hypothesis import strategies as st
from llmperf_compare.cost import Rates, cost_of

POSITIVE = st.floats(min_value=1e-6, max_value=1e9)
MAYBE = st.none() | POSITIVE


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
