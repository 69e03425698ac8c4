"""What the columns of `xpu_smi -m` mean: data by driver, believed only where the numbers are plausible."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from llmperf_kunlunxin.catalogue import DATA, table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOKEN = re.compile(r'"[^"]*"|\S+')
PCI = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]{1,2}")
NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})?")
NOT_SHOWN = ("N/A", "-", "NA")
WATTS = {"W": 1.0, "mW": 0.001}
SHOWN_OF_A_ROW = 240
MOST_SHOWN = 8


class Implausible(ValueError):
    """A row that a layout does not fit, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One card as one row tells it."""

    index: int
    """Device number, as in /dev/xpuN."""
    pci_bus: str
    """Address."""
    serial: str | None
    """None where the layout has none."""
    model: str | None
    """None where neither this row nor the tool's table has it."""
    memory_used_mib: int
    """By all processes."""
    memory_total_mib: int
    """Of the card."""
    utilisation_percent: float | None
    """None where not shown."""
    power_watts: float | None
    """None where not shown."""
    temperature_celsius: float | None
    """None where not shown."""


@dataclass(frozen=True, slots=True)
class Read:
    """Every row, by the layout that fits."""

    readings: tuple[Reading, ...]
    """One for each row that fits."""
    problems: tuple[str, ...]
    """One for each that does not: the row itself, and why."""


@cache
def data() -> dict[str, Any]:
    """The package's `layouts.toml`."""
    return tomllib.loads((DATA / "layouts.toml").read_text(encoding="utf-8"))


def read_rows(lines: Sequence[str], major: int, models: Mapping[int, str]) -> Read:
    """The rows by the one layout of this driver that fits most of them.

    `models` are the cards' models by number, as the tool's table has them. OSError that shows a row where the driver
    is unknown, no layout fits any row, or two fit as well as one another and tell different things.
    """
    candidates = [one for one in data()["layout"] if major in one["drivers"]]
    if not candidates:
        known = sorted({driver for one in data()["layout"] for driver in one["drivers"]})
        numbers = ", ".join(map(str, known))
        raise OSError(f"the columns of `xpu_smi -m` are known for drivers {numbers}, not for {major}: {_shown(lines)}")
    tried = [_by(layout, lines, models) for layout in candidates]
    best = max(tried, key=lambda one: len(one.readings))
    if not best.readings:
        reasons = "; ".join(
            f"as {layout['name']!r}: {one.problems[0] if one.problems else 'no rows'}"
            for layout, one in zip(candidates, tried, strict=True)
        )
        raise OSError(f"no known layout of `xpu_smi -m` fits {_shown(lines)}: {reasons}")
    rivals = [one for one in tried if len(one.readings) == len(best.readings) and one.readings != best.readings]
    if rivals:
        raise OSError(f"several layouts of `xpu_smi -m` fit, and tell different things: {_shown(lines)}")
    problems = [f"a row of `xpu_smi -m` that does not fit: {line}" for line in best.problems[:MOST_SHOWN]]
    if len(best.problems) > MOST_SHOWN:
        problems.append(f"and {len(best.problems) - MOST_SHOWN} more rows of `xpu_smi -m` that do not fit")
    return Read(best.readings, tuple(problems))


def _by(layout: Mapping[str, Any], lines: Sequence[str], models: Mapping[int, str]) -> Read:
    readings: dict[int, Reading] = {}
    problems = []
    for line in lines:
        try:
            one = _reading(layout, line, models)
            if one.index in readings:
                raise Implausible(f"device {one.index} a second time")
            readings[one.index] = one
        except Implausible as error:
            problems.append(f"{error} in {_shown([line])}")
    return Read(tuple(readings[index] for index in sorted(readings)), tuple(problems))


def _reading(layout: Mapping[str, Any], line: str, models: Mapping[int, str]) -> Reading:
    fields, columns = TOKEN.findall(line), layout["columns"]
    fewest, most = layout["fields"]
    if not fewest <= len(fields) <= most:
        raise Implausible(f"{len(fields)} fields where {fewest} to {most} are expected")
    if not PCI.fullmatch(fields[0]):
        raise Implausible(f"no PCI address but {fields[0][:40]}")
    limits = data()["plausible"]
    index = int(_number(fields, columns, "index", limits["index"]))
    model = fields[columns["model"] - 1].strip('"') if "model" in columns else models.get(index)
    total = int(_number(fields, columns, "memory_total", _memory_limits(model)))
    return Reading(
        index=index,
        pci_bus=fields[0],
        serial=fields[columns["serial"] - 1] if "serial" in columns else None,
        model=model,
        memory_used_mib=int(_number(fields, columns, "memory_used", (0, total))),
        memory_total_mib=total,
        utilisation_percent=_shown_number(fields, columns, "utilisation", limits["utilisation"]),
        power_watts=_watts(fields, columns, layout["power_unit"]),
        temperature_celsius=_shown_number(fields, columns, "temperature", limits["temperature"]),
    )


def _memory_limits(model: str | None) -> Sequence[float]:
    """A known model's memory, exactly; any that a card may have for another."""
    entry = None if model is None else table().find(model)
    if entry is None or entry.memory_gib is None:
        limits: Sequence[float] = data()["plausible"]["memory_total_mib"]
        return limits
    return (entry.memory_gib * 1024, entry.memory_gib * 1024)


def _watts(fields: Sequence[str], columns: Mapping[str, int], unit: str) -> float | None:
    factor = WATTS[unit]
    least, most = data()["plausible"]["watts"]
    shown = _shown_number(fields, columns, "power", (least / factor, most / factor))
    return None if shown is None else shown * factor


def _shown_number(
    fields: Sequence[str], columns: Mapping[str, int], name: str, limits: Sequence[float]
) -> float | None:
    return None if fields[columns[name] - 1] in NOT_SHOWN else _number(fields, columns, name, limits)


def _number(fields: Sequence[str], columns: Mapping[str, int], name: str, limits: Sequence[float]) -> float:
    text = fields[columns[name] - 1]
    least, most = limits
    value = float(text) if NUMBER.fullmatch(text) else None
    if value is None or not least <= value <= most:
        expected = f"{least:g}" if least == most else f"{least:g} to {most:g}"
        raise Implausible(f"column {columns[name]} ({name}) is {text[:40]}, expected {expected}")
    return value


def _shown(lines: Sequence[str]) -> str:
    return repr(lines[0][:SHOWN_OF_A_ROW]) if lines else "an empty output"
