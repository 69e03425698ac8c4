"""What is particular to Acme: its tool, played here by a script, and its device."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from llmperf.errors import PluginError
from llmperf_acme import device
from llmperf_acme.plugin import llmperf_peak_flops, llmperf_probe, llmperf_query_memory, llmperf_setup_device
from llmperf_acme.tool import DEVICES, VENDOR

PRINTED = """\
0, Acme A1, UUID-0, 1.2, 65536, 1024, 50, 300, 60
1, Acme A1, UUID-1, 1.2, 65536, 0, 0, N/A, 35
"""
"""What the tool prints. Replace it with lines that yours has really printed."""
REAL: Any = SimpleNamespace(probe=SimpleNamespace(simulated=False, devices=()))
"""The part of a plan for real devices that binding a device needs."""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A function that puts a tool on the PATH which prints a text."""

    def play(printed: str) -> None:
        script = tmp_path / DEVICES.argv[0]
        script.write_text(f"#!/bin/sh\ncat <<'END'\n{printed}END\n")
        script.chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv(VENDOR.variable, raising=False)
    return play


def test_devices_are_those_that_the_tool_shows(tool: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    tool(PRINTED)
    probe = llmperf_probe()
    assert [(shown.index, shown.model, shown.memory_bytes, shown.uuid) for shown in probe.devices] == [
        (0, "Acme A1", 64 * 2**30, "UUID-0"),
        (1, "Acme A1", 64 * 2**30, "UUID-1"),
    ]
    assert (probe.driver, probe.simulated, probe.problems) == ("1.2", False, ())
    monkeypatch.setenv(VENDOR.variable, "1")
    assert [shown.index for shown in llmperf_probe().devices] == [1]


def test_a_reading_has_what_the_tool_shows_of_that_device(tool: Callable[[str], None]) -> None:
    tool(PRINTED)
    first, second, absent = llmperf_query_memory((0, 1, 7))
    assert (first.memory_used_bytes, first.utilisation_percent, first.power_watts) == (2**30, 50, 300)
    assert (second.memory_used_bytes, second.power_watts) == (0, None)
    assert (absent.index, absent.memory_used_bytes, absent.memory_total_bytes) == (7, None, None)


BAD_ROWS = ["0, Acme A1", PRINTED.splitlines()[0].replace("1024", "99999"), "no devices were found"]


@pytest.mark.parametrize("row", BAD_ROWS)
def test_a_row_that_does_not_fit_is_left_out_and_shown(tool: Callable[[str], None], row: str) -> None:
    tool(f"{row}\n")
    assert row in llmperf_probe().problems[0]


def test_an_unknown_device_has_no_peak() -> None:
    assert llmperf_peak_flops("Acme Z9", "bf16") is None


class Matrix:
    def __matmul__(self, other: Any) -> Any:
        return other


class Event:
    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        pass

    def elapsed_time(self, later: Any) -> float:
        return 250.0


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """`torch` with the part of your extension that this package uses."""
    calls: list[tuple[Any, ...]] = []
    names = ("set_device", "synchronize", "reset_peak_memory_stats", "empty_cache")
    runtime: dict[str, Any] = {name: lambda *at, name=name: calls.append((name, *at)) for name in names}
    runtime |= {"max_memory_allocated": lambda at: 10, "max_memory_reserved": lambda at: 20, "Event": Event}
    played = SimpleNamespace(ones=lambda *shape, device: Matrix(), calls=calls)
    setattr(played, device.NAMESPACE, SimpleNamespace(**runtime))
    monkeypatch.setitem(sys.modules, "torch", played)
    monkeypatch.setitem(sys.modules, device.EXTENSION, SimpleNamespace())
    return played


def test_a_rank_is_bound_to_its_device_through_torch(torch: SimpleNamespace) -> None:
    bound: Any = llmperf_setup_device(REAL, 3)
    with bound:
        assert bound.places == {"torch": f"{device.NAMESPACE}:3"}
        first, second = bound.event(), bound.event()
        assert second.seconds_since(first) == 0.25
        assert (bound.peak_memory_bytes(), bound.peak_reserved_bytes()) == (10, 20)
    assert torch.calls[0] == ("set_device", 3)


def test_a_missing_extension_is_one_line(torch: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, device.EXTENSION, None)
    with pytest.raises(PluginError, match="cannot be imported"):
        llmperf_setup_device(REAL, 0)
