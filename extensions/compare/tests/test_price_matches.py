"""Prices find their devices however the two are spelt, and say so where they do not."""

from datetime import date

import pytest
from llmperf_compare.prices import DevicePrice, Prices, matched_prices, same_device

PRICE = DevicePrice(per_hour=2.0, currency="USD", date=date(2026, 11, 1), source="list")


def matched(names, devices):
    lines = []
    prices = Prices(devices=dict.fromkeys(names, PRICE), file="prices.toml")
    return matched_prices(prices, devices, lines.append), lines


@pytest.mark.parametrize(("name", "other", "same"), [
    ("NVIDIA_A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", True),
    ("a100 sxm4 40gb", "NVIDIA_A100-SXM4-40GB", True),
    ("A100-SXM4-80GB", "NVIDIA_A100-SXM4-40GB", False),
    ("EPYC", "AMD EPYC", False),
    ("40GB", "A100 40GB", False),
    ("", "", True),
    ("R300", "昆仑芯AI加速卡R300", True),
    ("R300", "昆仑芯AI加速卡P300R300", False),
    ("6000", "NVIDIA RTX 6000", False),
])  # fmt: skip
def test_names_of_one_card(name, other, same):
    assert same_device(name, other) is same
    assert same_device(other, name) is same


def test_a_natural_name_is_that_of_the_only_device_that_it_fits():
    prices, lines = matched(["H800"], ["NVIDIA_H800-80GB", "AMD EPYC"])
    assert prices.of("NVIDIA H800-80GB") == PRICE
    assert prices.of("AMD EPYC") is None
    assert lines == []
    prices, lines = matched(["SXM5"], ["NVIDIA H800-SXM5-80GB", "H800-SXM5-80GB"])
    assert prices.of("H800-SXM5-80GB") == PRICE
    assert lines == []


def test_a_name_that_fits_two_devices_fits_none_and_is_named():
    prices, (line,) = matched(["A100"], ["NVIDIA A100-40GB", "NVIDIA A100-80GB"])
    assert prices.of("NVIDIA A100-40GB") is None
    assert "the device A100; which of NVIDIA A100-40GB, NVIDIA A100-80GB" in line


def test_prices_of_no_device_are_named_with_the_devices_that_have_none_and_the_closest():
    _, (line,) = matched(["NVIDIA H880-80GB"], ["NVIDIA H800-80GB", "AMD EPYC"])
    assert line == (
        "prices.toml: no result has the device NVIDIA H880-80GB; devices without a price: NVIDIA H800-80GB, AMD EPYC"
        " (NVIDIA H800-80GB is close to NVIDIA H880-80GB)"
    )
    _, (line,) = matched(["H800", "B200", "A100-SXM4-40GB"], ["NVIDIA_H800-80GB", "H100 SXM5"])
    assert line == ("prices.toml: no result has the device B200 or A100-SXM4-40GB; devices without a price: H100 SXM5")


def test_names_of_one_device_in_a_catalogue_have_one_price():
    prices, lines = matched(["H800"], ["NVIDIA_H800-80GB", "H800", "H800-SXM5-80GB"])
    assert all(prices.of(name) == PRICE for name in ("NVIDIA_H800-80GB", "H800", "H800-SXM5-80GB"))
    assert lines == []
    prices, _ = matched(["H800-80GB"], ["NVIDIA H800"])
    assert prices.of("NVIDIA H800") == PRICE
    assert matched(["A100", "H100"], ["NVIDIA A100"])[1] == []  # a list may have more than the results need
