"""A vendor's `rates.toml`: efficiencies times its peak table."""

import pytest
from llmperf.errors import UserError
from llmperf_vendorkit import PeakTable, RateTable

PEAKS = """
[[device]]
model = "Acme A1"
aliases = ["A1-16GB"]
memory_gib = 16
memory_gb_per_second = 1000
dense_tflops = { fp32 = 10, bf16 = 100 }
source = "datasheet"
date = "2026"

[[device]]
model = "Acme B2"
dense_tflops = { fp32 = 10 }
source = "datasheet"
date = "2026"
"""
RATES = """
[[assumption]]
models = ["Acme A1"]
matmul_efficiency = { bf16 = 0.7, fp16 = 0.7 }
attention_efficiency = { bf16 = 0.5 }
memory_efficiency = 0.8
launch_microseconds = 3
overhead_gib = 2
node_gb_per_second = 100
source = "a guess"
date = "2026-01"
"""


@pytest.fixture
def table(tmp_path):
    """Reads the peaks above and the given rates."""

    def read(rates=RATES):
        (tmp_path / "peaks.toml").write_text(PEAKS)
        (tmp_path / "rates.toml").write_text(rates)
        return RateTable.read(tmp_path / "rates.toml", PeakTable.read(tmp_path / "peaks.toml", "acme"))

    return read


def test_rates_are_the_assumed_shares_of_the_peaks_by_any_name_of_the_device(table):
    rates = table().device_rates("A1-16GB")
    assert rates is not None
    assert rates.basis == "assumed"
    assert rates.matmul_flops_per_second == {"bf16": 7e13}
    assert rates.attention_flops_per_second == {"bf16": 5e13}
    assert rates.memory_bytes_per_second == 8e11
    assert rates.memory_bytes == 2**34
    assert rates.overhead_bytes == 2**31
    assert [(link.scope, link.bytes_per_second) for link in rates.links] == [("node", 1e11)]
    assert rates.source == "datasheet; a guess"


def test_without_an_assumption_or_a_bandwidth_nothing_is_known(table):
    assert table().device_rates("Acme B2") is None
    assert table().device_rates("Acme C3") is None
    assert table(RATES.replace("Acme A1", "Acme B2")).device_rates("Acme B2") is None
    given = RATES.replace("Acme A1", "Acme B2").replace("launch", "memory_gb_per_second = 500\nlaunch")
    known = table(given).device_rates("Acme B2")
    assert known is not None
    assert known.memory_bytes_per_second == 4e11


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (RATES.replace("Acme A1", "Acme A2"), "assumption[0].models: unknown device 'Acme A2'"),
        (RATES.replace("0.8", "1.8"), "memory_efficiency"),
        (RATES.replace("memory_eff", "memery_eff"), "unknown key 'memery_efficiency'"),
        (RATES + RATES, "assumption[1].models: 'Acme A1' has two assumptions"),
        (RATES.replace("[[assumption]]", "[[assumptions]]"), "unknown key 'assumptions'"),
    ],
)
def test_a_fault_is_named_with_its_place(table, wrong, message):
    with pytest.raises(UserError) as error:
        table(wrong)
    assert message in str(error.value)
