"""A vendor's table of devices: found by whole names, checked when it is read."""

import json
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from llmperf.cli.main import call
from llmperf.errors import UserError
from llmperf.types import Device, DeviceInfo, Offers
from llmperf_vendorkit import (
    AcceleratorDevice,
    PeakTable,
    RateTable,
    of_one_model,
    planned_indices,
    visibility_variable,
    visible_devices,
)

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
def read(tmp_path):
    def reading(text):
        (tmp_path / "peaks.toml").write_text(text)
        return PeakTable.read(tmp_path / "peaks.toml", vendor="acme")

    return reading


@pytest.mark.parametrize("name", ["Acme A1", "acme_a1", "A1", "A1-16GB", "ACME a1 16gb"])
def test_whole_names_are_found(read, name):
    peak = read(ENTRY).peak_flops(name, "bf16")
    assert (peak.device_model, peak.flops_per_second, peak.confidence) == (name, 100.5e12, "datasheet")


@pytest.mark.parametrize(("name", "dtype"), [("A1", "fp16"), ("A", "fp32"), ("A10", "fp32"), ("", "fp32")])
def test_nothing_stands_in(read, name, dtype):
    assert read(ENTRY).peak_flops(name, dtype) is None


def test_the_catalogue_carries_what_a_plan_shows(read):
    (probe,) = read(ENTRY).catalogue(lambda entry: OFFERS)
    (device,) = probe.devices
    assert (probe.vendor, probe.simulated, probe.interconnect) == ("acme", True, "AcmeLink")
    assert (device.model, device.memory_bytes) == ("Acme A1", int(15.5 * 2**30))
    assert device.details == {"aliases": "A1-16GB", "memory_bandwidth": "900 GB/s", "cooling": "air"}


def test_an_entry_may_know_little(read):
    table = read('[[device]]\nmodel = "X"\ndense_tflops = {}\nsource = "none"\ndate = "2026"\n')
    (probe,) = table.catalogue(lambda entry: OFFERS)
    assert (probe.devices[0].memory_bytes, table.peak_flops("X", "fp32")) == (None, None)


OTHER = ENTRY.replace("Acme A1", "Acme A2").replace("A1-16GB", "A2-16GB")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (("source", "sauce"), r"device\[0\] \(Acme A1\): unknown key 'sauce'; did you mean 'source'.*; the entry is"),
        (("25", "-25"), r"device\[0\] \(Acme A1\): .*dense_tflops.*; the entry is skipped"),
        (('date = "2026-01"\n', ""), r"device\[0\] \(Acme A1\): .*date.*; the entry is skipped"),
    ],
)
def test_a_bad_entry_is_skipped_with_a_line(read, bad, message):
    table = read(ENTRY.replace(*bad) + OTHER)
    (problem,) = table.problems
    assert re.search(message, problem)
    assert "peaks.toml" in problem
    assert "\n" not in problem
    assert table.find("A1") is None
    assert table.peak_flops("A2", "bf16").flops_per_second == 100.5e12
    assert [entry.problems for entry in table.catalogue(lambda entry: OFFERS)] == [(problem,)]


def test_a_figure_or_a_precision_of_an_unknown_dtype_is_skipped_and_no_other(read):
    table = read(ENTRY.replace("fp32 =", "fp4 = 800, fp32 =") + 'precisions = ["fp4", "bf16"]\n' + OTHER)
    figure, precision = table.problems
    assert "device[0] (Acme A1): dense_tflops: unknown dtype 'fp4'; did you mean" in figure
    assert figure.endswith("; the figure 800 is skipped")
    assert "device[0] (Acme A1): precisions: unknown dtype 'fp4'" in precision
    assert table.find("A1").precisions == ("bf16",)
    assert table.peak_flops("A1", "bf16").flops_per_second == 100.5e12
    assert table.peak_flops("A2", "fp32") is not None


def test_a_name_that_two_entries_give_is_neithers(read):
    table = read(ENTRY + OTHER.replace("A2-16GB", "a1-16gb"))
    assert "(Acme A2): expected names of one device each, found 'a1-16gb' for Acme A1 too" in table.problems[0]
    assert table.find("A1-16GB") is None
    assert (table.find("A1").model, table.find("A2").model) == ("Acme A1", "Acme A2")
    twice = read(ENTRY + ENTRY.replace("25", "30") + OTHER)
    assert twice.find("A1") is None
    assert [shown.devices[0].model for shown in twice.catalogue(lambda entry: OFFERS)] == ["Acme A1", "Acme A2"]


@pytest.mark.slow
def test_skipped_entries_are_shown_by_doctor_devices_and_plans_that_need_them(install, tmp_path, ran, capsys):
    (tmp_path / "peaks.toml").write_text(ENTRY.replace("bf16 =", "bf61 =") + OTHER.replace("25", "-25"))
    install("llmperf-acme", "acme", VENDOR)
    message = "(Acme A1): dense_tflops: unknown dtype 'bf61'; did you mean 'bf16'?; the figure 100.5 is skipped"
    call(["doctor"])
    assert message in capsys.readouterr().out
    assert message in ran(0, "devices").out
    call(["plan", "default", "--vendor", "acme", "--framework", "pytorch", "--set", "precision=bf16", "--json"])
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert message in plan["peak_problem"]
    assert "Acme A2" not in plan["peak_problem"]
    refused = ran(2, "plan", "default", "--on", "Acme A2:1x2").err
    assert "unknown device model 'Acme A2'" in refused
    assert "(Acme A2): " in refused
    assert "the entry is skipped" in refused
    assert "bf61" not in refused


VENDOR = """
from pathlib import Path
from llmperf import hookimpl
from llmperf.types import DeviceInfo, Offers, Probe
from llmperf_vendorkit import PeakTable

OFFERS = Offers(precisions=("fp32", "bf16"), runtimes=("torch",), collective_backend="gloo")

def table():
    return PeakTable.read(Path(__file__).parent / "peaks.toml", vendor="acme")

@hookimpl
def llmperf_probe():
    return Probe(vendor="acme", devices=(DeviceInfo(index=0, model="Acme A1", memory_bytes=2**34),), offers=OFFERS)

@hookimpl
def llmperf_catalogue():
    return table().catalogue(lambda entry: OFFERS)

@hookimpl
def llmperf_peak_flops(device_model, dtype):
    return table().peak_flops(device_model, dtype)
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENTRY.replace("2026-01", "last year"), "date"),
        (ENTRY.replace("25", "-25"), "dense_tflops"),
        (ENTRY.replace("25", "2e14"), r"\(Acme A1\): .*< 100000.0.*dense_tflops"),
        ("[device]\n", r"expected \[\[device\]\]"),
        ("device = [3]\n", r"device\[0\]"),
        ("[[gpu]]\n", "unknown key 'gpu'"),
        ("[[device\n", "not valid TOML"),
    ],
)
def test_faults_say_where(read, text, message):
    with pytest.raises(UserError, match=message) as raised:
        read(text)
    assert "peaks.toml" in str(raised.value)
    assert "\n" not in str(raised.value)


PEAKS = Path(__file__).with_name("acme_peaks.toml").read_text()
RATES = Path(__file__).with_name("acme_rates.toml").read_text()


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
def test_a_fault_is_named_with_its_place(table, wrong, message, one_line):
    with one_line(message):
        table(wrong)


def device(runtime, make_event):
    return AcceleratorDevice(runtime, 3, collective_backend="nccl", places={"torch": "cuda:3"}, make_event=make_event)


@pytest.mark.parametrize(
    "resets", [("reset_peak_memory_stats",), ("reset_max_memory_allocated", "reset_max_memory_reserved")]
)
def test_memory_and_waiting_are_those_of_its_index(played, resets):
    """The functions of torch, and those of Paddle."""
    runtime = played.runtime("synchronize", *resets)
    with device(runtime, runtime.Event) as shown:
        checked: Device = shown
        assert (checked.places, checked.collective_backend) == ({"torch": "cuda:3"}, "nccl")
        played.use(shown)
    assert played.calls == [*((reset, 3) for reset in resets), ("synchronize", 3), ("empty_cache",)]


@pytest.mark.parametrize(("event", "tells"), [("clock", True), ("stopped", False), ("missing", False)])
def test_events_tell_time_even_where_the_runtimes_do_not(played, event, tells):
    shown = device(played.runtime("synchronize"), played.events[event])
    assert shown.check_events(lambda: time.sleep(0.001)) is tells
    first = shown.event()
    time.sleep(0.02)
    second = shown.event()
    assert second.ready()
    assert 0.015 < second.seconds_since(first) < 5


THREE = [
    DeviceInfo(index=index, model=model, memory_bytes=None, uuid=f"GPU-{index}{index}")
    for index, model in ((0, "A"), (1, "B"), (4, "A"))
]


@pytest.mark.parametrize(
    ("value", "indices"),
    [(None, [0, 1, 4]), ("", []), ("4, 0", [4, 0]), ("GPU-11", [1]), ("0,7,1", [0]), ("0,0,1", [0]), ("-1", [])],
)
def test_visible_devices(value, indices):
    assert [device.index for device in visible_devices(THREE, value)] == indices


def test_one_model_and_a_line_for_the_others():
    same, problems = of_one_model(THREE, "X_VISIBLE_DEVICES")
    assert [device.index for device in same] == [0, 4]
    reason = "a run measures devices of one model, and the first is A"
    assert problems == (f"devices left out: 1 (B): {reason}; choose others with X_VISIBLE_DEVICES=1",)
    assert of_one_model([], "X") == ((), ())


def test_an_entry_may_abbreviate_a_uuid_where_the_runtime_allows_it():
    assert [device.index for device in visible_devices(THREE, "GPU-4,GPU", uuid_prefix="GPU-")] == [4]
    assert visible_devices(THREE, "GPU-4") == ()


@pytest.mark.parametrize(("used", "expected"), [(THREE[:1], {}), (THREE[1:], {"X": "1,4"})])
def test_ranks_get_the_variable_unless_they_use_the_first_devices(used, expected):
    plan: Any = SimpleNamespace(probe=SimpleNamespace(devices=used), layout=SimpleNamespace(devices_per_node=2))
    assert planned_indices(plan) == tuple(device.index for device in used)
    assert visibility_variable(plan, "X") == expected
