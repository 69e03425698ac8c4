"""What is particular to Acme: its tool, which is played here, and its device."""

import sys
from types import SimpleNamespace

import pytest
from llmperf.errors import PluginError
from llmperf_acme import device
from llmperf_acme import tool as smi
from llmperf_acme.environment import VISIBLE
from llmperf_acme.plugin import llmperf_peak_flops, llmperf_probe, llmperf_query_memory, llmperf_setup_device

ROWS = "0, Acme A1, UUID-0, 1.2, 65536, 1024, 50, 300, 60\n1, Acme A1, UUID-1, 1.2, 65536, 0, 0, 90.5, 35\n"
REAL = SimpleNamespace(probe=SimpleNamespace(simulated=False, devices=()))
"""As much of a plan for real devices as binding one needs."""


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """A function that puts a tool on the PATH which prints some rows."""

    def play(printed):
        script = tmp_path / smi.COMMAND[0]
        script.write_text(f"#!/bin/sh\ncat <<'END'\n{printed}END\n")
        script.chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv(VISIBLE, raising=False)
    return play


def test_devices_are_those_that_the_tool_shows(tool, monkeypatch):
    tool(ROWS)
    probe = llmperf_probe()
    assert [(one.index, one.model, one.memory_bytes, one.uuid) for one in probe.devices] == [
        (0, "Acme A1", 64 * 2**30, "UUID-0"),
        (1, "Acme A1", 64 * 2**30, "UUID-1"),
    ]
    assert (probe.driver, probe.simulated, probe.problems) == ("1.2", False, ())
    monkeypatch.setenv(VISIBLE, "1")
    assert [one.index for one in llmperf_probe().devices] == [1]


def test_readings_are_of_whole_devices_and_unknown_where_there_is_none(tool):
    tool(ROWS)
    first, absent = llmperf_query_memory((0, 7))
    assert (first.memory_used_bytes, first.utilisation_percent, first.power_watts) == (2**30, 50, 300)
    assert (absent.index, absent.memory_used_bytes, absent.memory_total_bytes) == (7, None, None)


@pytest.mark.parametrize("row", ["0, Acme A1", ROWS.splitlines()[0].replace("1024", "99999"), "no devices were found"])
def test_a_row_that_does_not_fit_is_shown_and_not_guessed_at(tool, row):
    tool(row + "\n")
    assert row in llmperf_probe().problems[0]


def test_a_device_that_nobody_knows_has_no_peak():
    assert llmperf_peak_flops("Acme Z9", "bf16") is None


class Matrix:
    def __matmul__(self, other):
        return other


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        pass

    def elapsed_time(self, later):
        return 250.0


@pytest.fixture
def torch(monkeypatch):
    """`torch` with what your extension adds, as far as this package asks."""
    calls = []
    names = ("set_device", "synchronize", "reset_peak_memory_stats", "empty_cache")
    runtime = {name: lambda *at, name=name: calls.append((name, *at)) for name in names}
    runtime |= {"max_memory_allocated": lambda at: 10, "max_memory_reserved": lambda at: 20, "Event": Event}
    played = SimpleNamespace(ones=lambda *shape, device: Matrix(), calls=calls)
    setattr(played, device.NAMESPACE, SimpleNamespace(**runtime))
    monkeypatch.setitem(sys.modules, "torch", played)
    monkeypatch.setitem(sys.modules, device.EXTENSION, SimpleNamespace())
    return played


def test_a_rank_is_bound_to_its_device_through_torch(torch):
    with llmperf_setup_device(REAL, 3) as bound:
        assert bound.places == {"torch": f"{device.NAMESPACE}:3"}
        first, second = bound.event(), bound.event()
        assert second.seconds_since(first) == 0.25
        assert (bound.peak_memory_bytes(), bound.peak_reserved_bytes()) == (10, 20)
    assert torch.calls[0] == ("set_device", 3)


def test_without_the_extension_there_is_one_line(torch, monkeypatch):
    monkeypatch.setitem(sys.modules, device.EXTENSION, None)
    with pytest.raises(PluginError, match="cannot be imported"):
        llmperf_setup_device(REAL, 0)
