"""Ascend NPUs as `npu-smi info` shows them: two rows of the table for each chip."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from llmperf_vendorkit import AcceleratorVendor, Inventory, Misfit, Reading, Row, read_rows, tool_output

VERSION = re.compile(r"npu-smi\s+\S+\s+Version:\s*(?P<version>[\w.]{1,40})")
NUMBER = r"(\d{1,9}(?:\.\d{1,9})?|-|NA|N/A)"
PAIR = r"(\d{1,9})\s*/\s*(\d{1,9})"
NAME = re.compile(r"(\d{1,4})\s+(\S{1,40})")
STATE = re.compile(rf"{NUMBER}\s+{NUMBER}(?:\s+{PAIR})?")
USE = re.compile(rf"{NUMBER}\s+{PAIR}(?:\s+{PAIR})?")
HEADING, PROCESSES = "Health", "Process id"
LIMITS = {"power_watts": (0.0, 2000.0), "temperature_celsius": (0.0, 120.0)}
HEALTHY = ("OK", "Warning")
"""Health states of a working NPU, as the driver prints them."""


def inventory() -> Inventory:
    """The NPUs that work; OSError, one line, where `npu-smi` gives no answer or prints no such table.

    An NPU's index is its place in the table, as the runtime counts. A chip whose power is shown only on the first chip
    of its card has none.
    """
    try:
        printed = tool_output(["npu-smi", "info"])
    except OSError as error:
        raise OSError(f"no Ascend driver answers: {error}") from None
    lines = list(_lines(printed))
    if not lines:
        raise OSError(f"no Ascend driver answers: npu-smi: expected a table of NPUs, found {printed.strip()[:160]!r}")
    pairs = zip(lines[::2], [*lines[1::2], []], strict=False)
    shown = read_rows([_row(*pair) for pair in pairs], "npu-smi info", _reading)
    version = VERSION.search(printed)
    readings, problems = [], list(shown.problems)
    for reading in shown.readings:
        health = reading.details["health"]
        if health in HEALTHY:
            details = {name: detail for name, detail in reading.details.items() if name != "health"}
            readings.append(replace(reading, details=details))
        if health != "OK":
            left_out = "" if health in HEALTHY else ", and it is left out"
            problems.append(f"NPU {reading.index}: its health is {health}{left_out}")
    return Inventory(readings=tuple(readings), driver=version["version"] if version else None, problems=tuple(problems))


def _lines(printed: str) -> Iterator[list[str]]:
    """The cells of each line below the headings of the first table."""
    inside = False
    for line in printed.splitlines():
        if PROCESSES in line:
            return
        if line.strip().startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if inside and not cells[0].startswith("Chip"):
                yield cells
            inside = inside or (HEADING in line and "NPU" in line)


def _row(above: Sequence[str], below: Sequence[str]) -> Row:
    shown = " / ".join(" | ".join(cells) for cells in (above, below))
    if len(above) != 3 or len(below) != 3:
        return Row({}, shown, f"{len(above)} and {len(below)} cells where 3 and 3 are expected")
    name, state, use = NAME.fullmatch(above[0]), STATE.fullmatch(above[2]), USE.fullmatch(below[2])
    if name is None or state is None or use is None:
        return Row({}, shown, "no NPU, name, power, temperature, use and memory")
    hbm = use[5] not in (None, "0")  # otherwise the memory beside it
    cells = {
        "model": name[2] if name[2].startswith("Ascend") else f"Ascend {name[2]}",
        "npu": name[1],
        "health": above[1],
        "pci_bus": below[1],
        "memory_used_mib": use[4] if hbm else use[2],
        "memory_total_mib": use[5] if hbm else use[3],
        "utilisation_percent": use[1],
        "power_watts": state[1],
        "temperature_celsius": state[2],
    }
    return Row(cells, shown)


def _reading(cells: Mapping[str, object]) -> Reading:
    reading = Reading.from_cells(cells, limits=LIMITS)
    if "health" not in reading.details:
        raise Misfit("no health")
    return reading


ASCEND = AcceleratorVendor(
    name="ascend",
    peaks=Path(__file__).parent / "data" / "peaks.toml",
    inventory=inventory,
    variable="ASCEND_RT_VISIBLE_DEVICES",
    runtimes=("torch",),
    collective_backend="hccl",
    unknown_model="unknown Ascend NPU",
)
