"""The `nvidia-smi` command, for machines where NVML cannot be loaded from Python."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from llmperf_vendorkit import CsvCommand, Inventory, Misfit, Reading, Row, read_rows

from llmperf_nvidia.nvml import MODES, reasons_of

SECONDS = 20
NO_SUCH_FIELD = "not a valid field"
VERSION = r"\d{1,3}\.\d{1,3}"
WATTS = r"\d{1,9}(\.\d{1,9})?"

DEVICE = {
    "index": "index",
    "name": "model",
    "uuid": "uuid",
    "memory.total": "memory_total_mib",
    "driver_version": "driver",
    "pci.bus_id": "pci_bus",
    "power.limit": "limit",
    "ecc.mode.current": "ecc",
}
"""Name of the cell by the field of the tool."""
NEWER = {
    "compute_cap": "capability",
    "mig.mode.current": "mig",
    "power.default_limit": "default_limit",
    "pcie.link.gen.max": "generation",
    "pcie.link.width.max": "width",
}
"""Those that older drivers do not know."""
FIGURES = {
    "index": "index",
    "memory.used": "memory_used_mib",
    "memory.total": "memory_total_mib",
    "utilization.gpu": "utilisation_percent",
    "power.draw": "power_watts",
    "temperature.gpu": "temperature_celsius",
}
REASONS = {"clocks_throttle_reasons.active": "reasons"}
"""Newer drivers call it `clocks_event_reasons.active` and still know this name."""


def inventory() -> Inventory:
    """Every GPU; OSError, one line, where the tool gives no answer, or a row that does not fit."""
    shown = read_rows(_rows(DEVICE, NEWER), "nvidia-smi", _device)
    if shown.problems or not shown.readings:
        nothing = "nvidia-smi: expected one row for each GPU, found an empty output"
        raise OSError(shown.problems[0] if shown.problems else nothing)
    return shown


def readings() -> Inventory:
    """Every GPU as it is now; implausible figures are unknown. OSError where the tool gives no answer."""
    return read_rows(_rows(FIGURES, REASONS), "nvidia-smi", _figures)


def _rows(fields: Mapping[str, str], newer: Mapping[str, str]) -> list[Row]:
    """A row for each GPU in NVML's order; without all of `newer` if the tool does not know one of them."""
    try:
        return _command({**fields, **newer}).rows()
    except OSError as error:
        if NO_SUCH_FIELD not in str(error):
            raise
        return _command(fields).rows()


def _command(fields: Mapping[str, str]) -> CsvCommand:
    argv = ("nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")
    return CsvCommand(argv=argv, columns=tuple(fields.values()), seconds=SECONDS)


def _device(cells: Mapping[str, object]) -> Reading:
    reading = Reading.from_cells({name: cell for name, cell in cells.items() if not str(cell).startswith("[")})
    shown = reading.details
    capability, generation, width = (shown.get(name) for name in ("capability", "generation", "width"))
    if capability and not re.fullmatch(VERSION, capability):
        raise Misfit(f"compute_cap is {capability}, expected a version such as 8.0")
    details = {
        "compute_capability": capability,
        "pci_bus": shown.get("pci_bus"),
        "pcie": f"gen {generation} x{width}" if generation and width else None,
        "ecc": MODES.get(shown.get("ecc", "")),
        "mig": MODES.get(shown.get("mig", "")),
        "power_limit": _watts(shown.get("limit", "")),
        "power_limit_default": _watts(shown.get("default_limit", "")),
    }
    return replace(reading, details={name: detail for name, detail in details.items() if detail is not None})


def _watts(cell: str) -> str | None:
    return f"{float(cell):g} W" if re.fullmatch(WATTS, cell) else None


def _figures(cells: Mapping[str, object]) -> Reading:
    reading = Reading.from_cells(cells, strict=False)
    with suppress(ValueError):
        return replace(reading, throttle_reasons=reasons_of(int(reading.details.get("reasons", ""), 16)))
    return reading
