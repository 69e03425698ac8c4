"""A vendor's table of devices: found by whole names, checked when it is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from llmperf import PeakTable
from llmperf.errors import UserError
from llmperf.types import Offers

ENTRY = """
[[device]]
model = "Acme A1"
aliases = ["A1-16GB"]
memory_gib = 15.5
memory_gb_per_second = 900
interconnect = "AcmeLink"
dense_tflops = { fp32 = 25, bf16 = 100.5 }
source = "datasheet"
date = "2026-01"
details = { cooling = "air" }
"""
OFFERS = Offers(precisions=("fp32",), runtimes=("torch",), collective_backend="gloo")


@pytest.fixture
def read(tmp_path: Path):
    def reading(text: str) -> PeakTable:
        (tmp_path / "peaks.toml").write_text(text)
        return PeakTable.read(tmp_path / "peaks.toml", vendor="acme")

    return reading


@pytest.mark.parametrize("name", ["Acme A1", "acme_a1", "A1", "A1-16GB", "ACME a1 16gb"])
def test_whole_names_are_found(read, name: str) -> None:
    peak = read(ENTRY).peak_flops(name, "bf16")
    assert (peak.device_model, peak.flops_per_second, peak.confidence) == (name, 100.5e12, "datasheet")


@pytest.mark.parametrize(("name", "dtype"), [("A1", "fp16"), ("A", "fp32"), ("A10", "fp32"), ("", "fp32")])
def test_nothing_stands_in(read, name: str, dtype: str) -> None:
    assert read(ENTRY).peak_flops(name, dtype) is None


def test_the_catalogue_carries_what_a_plan_shows(read) -> None:
    (probe,) = read(ENTRY).catalogue(lambda entry: OFFERS)
    (device,) = probe.devices
    assert (probe.vendor, probe.simulated, probe.interconnect) == ("acme", True, "AcmeLink")
    assert (device.model, device.memory_bytes) == ("Acme A1", int(15.5 * 2**30))
    assert device.details == {"aliases": "A1-16GB", "memory_bandwidth": "900 GB/s", "cooling": "air"}


def test_an_entry_may_know_little(read) -> None:
    table = read('[[device]]\nmodel = "X"\ndense_tflops = {}\nsource = "none"\ndate = "2026"\n')
    (probe,) = table.catalogue(lambda entry: OFFERS)
    assert (probe.devices[0].memory_bytes, table.peak_flops("X", "fp32")) == (None, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ENTRY.replace("source", "sauce"), r"device\[0\].*: unknown key 'sauce'; did you mean 'source'"),
        (ENTRY.replace('date = "2026-01"\n', ""), r"device\[0\].*: .*date"),
        (ENTRY.replace("2026-01", "last year"), "date"),
        (ENTRY.replace("25", "-25"), "dense_tflops"),
        (ENTRY.replace("fp32 =", "fp33 ="), r"dense_tflops: unknown dtype 'fp33'; did you mean 'fp32'"),
        (ENTRY.replace("25", "2e14"), r"\(Acme A1\): .*< 100000.0.*dense_tflops"),
        (ENTRY + ENTRY.replace('"Acme A1"', '"B"').replace("A1-16GB", "a1"), "found 'a1' for Acme A1 too"),
        ("[device]\n", r"expected \[\[device\]\]"),
        ("device = [3]\n", r"device\[0\]"),
        ("[[gpu]]\n", "unknown key 'gpu'"),
        ("[[device\n", "no valid TOML"),
    ],
)
def test_faults_say_where(read, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as raised:
        read(text)
    assert "peaks.toml" in str(raised.value)
    assert "\n" not in str(raised.value)
