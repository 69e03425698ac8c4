"""Readings of devices from the named cells that a management tool or library shows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from llmperf import printable
from llmperf.types.devices import DeviceInfo, DeviceSample, ThrottleReason

MAX_INDEX = 1023
MAX_TEXT = 80
"""Characters kept of a name."""
MAX_SHOWN = 200
"""Characters of a row that a problem quotes."""
MAX_PROBLEMS = 8
"""Problems listed of one source; the others are counted."""

NOT_SHOWN = frozenset(
    ["", "-", "--", "n/a", "na", "none", "null", "unknown", "unknown error", "err!", "error", "not supported"]
)
"""Cells in which tools say that they do not know, in lower case and without brackets."""

NUMBER = re.compile(r"([+-]?\d{1,20}(?:\.\d{0,20})?(?:[eE][+-]?\d{1,3})?)\s*(\S.{0,9})?")


class Misfit(ValueError):
    """A row or cell that is not what it should be; the message says what is wrong."""

    def __init__(self, message: str, cell: str | None = None) -> None:
        """`cell` is the name of the cell, if it is one."""
        super().__init__(message)
        self.cell = cell


@dataclass(frozen=True, slots=True)
class Figure:
    """How a cell of one name becomes a number of a `Reading`."""

    field: str
    """Field of `Reading`."""
    factor: float
    """One unit of the cell in the unit of the field."""
    units: tuple[str, ...]
    """Units that may follow the number in the cell."""
    limits: tuple[float, float]
    """Smallest and largest plausible value, in the unit of the cell."""


def _memory(name: str) -> dict[str, Figure]:
    units = {"bytes": (1, ("B", "bytes")), "kib": (2**10, ("KiB", "KB", "kB"))}
    units |= {"mib": (2**20, ("MiB", "MB", "M")), "gib": (2**30, ("GiB", "GB", "G"))}
    return {
        f"memory_{name}_{unit}": Figure(f"memory_{name}_bytes", factor, texts, (0, 2**50 / factor))
        for unit, (factor, texts) in units.items()
    }


FIGURES: Mapping[str, Figure] = {
    **_memory("used"),
    **_memory("total"),
    "utilisation_percent": Figure("utilisation_percent", 1, ("%",), (0, 100)),
    "power_watts": Figure("power_watts", 1, ("W",), (0, 5000)),
    "power_milliwatts": Figure("power_watts", 1e-3, ("mW",), (0, 5e6)),
    "temperature_celsius": Figure("temperature_celsius", 1, ("C", "°C"), (-50, 150)),
    "clock_megahertz": Figure("clock_hertz", 1e6, ("MHz", "Mhz"), (0, 20_000)),
    "energy_joules": Figure("energy_joules", 1, ("J",), (0, 1e15)),
    "energy_millijoules": Figure("energy_joules", 1e-3, ("mJ",), (0, 1e18)),
}
"""Names of cells that hold a number."""

QUANTITY = r"(memory_used|memory_total|utilisation|power|temperature|energy)(_|$)"
"""How names of figures begin; the unit follows."""

TEXTS = ("model", "uuid", "driver")
"""Names of cells that hold a text. `index` holds a whole number; a cell of any other name becomes a detail."""


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of one device as a source shows them."""

    cells: Mapping[str, object]
    """By the names in `FIGURES` and `TEXTS`, `index`, `card`, `chip`, or names of details."""
    text: str
    """The source's own line or document, which a problem quotes."""
    fault: str | None = None
    """The reason why the row has no cells."""


class Absent(NamedTuple):
    """A cell of a document that does not have the cell's path."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One device as it is now; None is what the source does not show."""

    index: int
    """As the vendor's runtime counts."""
    model: str | None = None
    """Name for the peak table."""
    uuid: str | None = None
    """UUID of the device."""
    driver: str | None = None
    """Version."""
    memory_used_bytes: int | None = None
    """By all processes."""
    memory_total_bytes: int | None = None
    """Memory of the device."""
    utilisation_percent: float | None = None
    """0 to 100."""
    power_watts: float | None = None
    """Power of this very device, not of a card that it shares."""
    temperature_celsius: float | None = None
    """Temperature of the chip."""
    energy_joules: float | None = None
    """A counter; only differences count."""
    clock_hertz: float | None = None
    """Clock of its compute units."""
    throttle_reasons: tuple[ThrottleReason, ...] | None = None
    """Reasons why the clocks are held down now."""
    process_ids: tuple[int, ...] | None = None
    """Processes that compute on the device."""
    details: Mapping[str, str] = field(default_factory=dict)
    """Anything else, by name."""

    @classmethod
    def from_cells(
        cls,
        cells: Mapping[str, object],
        *,
        limits: Mapping[str, tuple[float, float]] | None = None,
        strict: bool = True,
    ) -> Reading:
        """The reading in a row of cells, which may be text, numbers or `{"value": 3, "unit": "W"}`.

        A cell that says `N/A` or the like is None. `limits` replaces the limits of `FIGURES`. A figure outside its
        limits, in another unit or that is no number raises Misfit; so does more memory in use than there is. With
        `strict=False` such a figure is None. An `index` that is no whole number always raises Misfit.
        """
        figures: dict[str, float] = {}
        for name in FIGURES.keys() & cells.keys():
            try:
                value = number(cells[name], name, (limits or {}).get(name))
            except Misfit:
                if strict:
                    raise
                continue
            if value is not None:
                figures.setdefault(FIGURES[name].field, value)
        used, total = figures.get("memory_used_bytes"), figures.get("memory_total_bytes")
        if total == 0 or (used is not None and total is not None and used > total):
            if strict:
                raise Misfit(f"memory in use is {(used or 0) / 2**20:g} of {total / 2**20:g} MiB")
            used = total = None
        details = {name: text(cell) for name, cell in cells.items() if name not in FIGURES and name not in TEXTS}
        details.pop("index", None)
        return cls(
            index=_index(cells.get("index")),
            model=text(cells.get("model")),
            uuid=text(cells.get("uuid")),
            driver=text(cells.get("driver")),
            memory_used_bytes=None if used is None else int(used),
            memory_total_bytes=None if total is None else int(total),
            utilisation_percent=figures.get("utilisation_percent"),
            power_watts=figures.get("power_watts"),
            temperature_celsius=figures.get("temperature_celsius"),
            energy_joules=figures.get("energy_joules"),
            clock_hertz=figures.get("clock_hertz"),
            details={name: detail for name, detail in details.items() if detail is not None},
        )

    def device(self, unknown_model: str) -> DeviceInfo:
        """The device for a probe; `unknown_model` is the name of a device whose model is not shown."""
        return DeviceInfo(
            index=self.index,
            model=self.model or unknown_model,
            memory_bytes=self.memory_total_bytes,
            uuid=self.uuid,
            details=self.details,
        )

    def sample(self) -> DeviceSample:
        """The sample for `llmperf_query_memory`."""
        return DeviceSample(
            index=self.index,
            memory_used_bytes=self.memory_used_bytes,
            memory_total_bytes=self.memory_total_bytes,
            utilisation_percent=self.utilisation_percent,
            power_watts=self.power_watts,
            temperature_celsius=self.temperature_celsius,
            energy_joules=self.energy_joules,
            clock_hertz=self.clock_hertz,
            throttle_reasons=self.throttle_reasons,
            process_ids=self.process_ids,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The devices that a source shows."""

    readings: tuple[Reading, ...]
    """In the order of the source."""
    driver: str | None = None
    """Version; None where unknown."""
    simulated: bool = False
    """The source says of itself that it only plays a machine."""
    problems: tuple[str, ...] = ()
    """One line for each row that was left out, with the row."""


def read_rows(
    rows: Sequence[Row], source: str, read: Callable[[Mapping[str, object]], Reading] = Reading.from_cells
) -> Inventory:
    """A reading for each row that fits; the others are listed in `problems`, quoted.

    A row without an `index` has its position among all rows. `source` names the command or library.
    """
    readings: dict[int, Reading] = {}
    problems: list[str] = []
    for position, row in enumerate(rows):
        try:
            if row.fault is not None:
                raise Misfit(row.fault)
            reading = read({"index": position, **row.cells})
            if reading.index in readings:
                raise Misfit(f"device {reading.index} a second time")
            readings[reading.index] = reading
        except Misfit as error:
            problems.append(f"{source}: a row does not fit and is left out: {error} in {row.text[:MAX_SHOWN]!r}")
    drivers = [reading.driver for reading in readings.values() if reading.driver]
    left = [f"{len(problems) - MAX_PROBLEMS} more rows of {source} do not fit"] if len(problems) > MAX_PROBLEMS else []
    return Inventory(
        readings=tuple(readings.values()),
        driver=drivers[0] if drivers else None,
        problems=(*_cells_without_figures(rows, source), *problems[:MAX_PROBLEMS], *left),
    )


def _cells_without_figures(rows: Sequence[Row], source: str) -> Iterator[str]:
    """A line for each name of a cell that begins as a figure's does and is none, and for each path that no row has."""
    some_shown = any(name in FIGURES and is_shown(cell) for row in rows for name, cell in row.cells.items())
    for name in dict.fromkeys(name for row in rows for name in row.cells):
        match = re.match(QUANTITY, name)
        if match and name not in FIGURES:
            known = [figure for figure in FIGURES if figure.startswith(match[1])]
            nearest = max(known, key=lambda figure: SequenceMatcher(None, name, figure).ratio())
            yield f"{source}: {name!r} is no name of a figure and becomes a detail; did you mean {nearest!r}?"
        cells = [row.cells[name] for row in rows if name in row.cells]
        if some_shown and isinstance(cells[0], Absent) and all(isinstance(cell, Absent) for cell in cells):
            yield f"{source}: no device has {cells[0].path!r}, the path of {name!r}"


def is_shown(cell: object) -> bool:
    """Check whether a cell holds anything but a tool's way to say that it does not know."""
    if isinstance(cell, Absent):
        return False
    if isinstance(cell, Mapping):
        cell = cell.get("value")
    if not isinstance(cell, (str, int, float)):
        return cell is not None
    return str(cell).strip().strip("[]").strip().lower() not in NOT_SHOWN


def text(cell: object) -> str | None:
    """A cell as a printable line without quotation marks; None where nothing is shown."""
    if not isinstance(cell, (str, int, float)) or isinstance(cell, bool) or not is_shown(cell):
        return None
    return printable(str(cell).strip().strip('"'), "?")[:MAX_TEXT] or None


def number(cell: object, name: str, limits: tuple[float, float] | None = None) -> float | None:
    """The cell of a name in `FIGURES` as a number in the unit of its field; None where nothing is shown.

    `limits`, in the unit of the cell, are those of `FIGURES` if left out. Misfit for anything else than a number
    within them, and for another unit.
    """
    figure = FIGURES[name]
    least, most = limits or figure.limits
    if not is_shown(cell):
        return None
    parts = (cell.get("value"), cell.get("unit")) if isinstance(cell, Mapping) else (cell,)
    words = [str(part) if isinstance(part, (str, int, float)) else f"a {type(part).__name__}" for part in parts]
    shown = " ".join(word for word, part in zip(words, parts, strict=True) if part is not None).strip()
    match = None if isinstance(cell, bool) else NUMBER.fullmatch(shown)
    value, unit = (float(match[1]), match[2]) if match else (math.nan, None)
    if not least <= value <= most or (unit is not None and unit.strip() not in figure.units):
        expected = f"{least:g}" if least == most else f"{least:g} to {most:g}"
        in_unit = f" {figure.units[0]}" if unit is not None else ""
        raise Misfit(f"{name} is {shown[:40]}, expected {expected}{in_unit}", name)
    return value * figure.factor


def _index(cell: Any) -> int:
    if isinstance(cell, str) and re.fullmatch(r"\d{1,4}", cell.strip()):
        cell = int(cell)
    if type(cell) is not int or not 0 <= cell <= MAX_INDEX:
        shown = str(cell)[:40] if isinstance(cell, (str, int, float)) else type(cell).__name__
        raise Misfit(f"index is {shown}, expected a whole number from 0 to {MAX_INDEX}")
    return cell
