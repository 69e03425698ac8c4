"""Columns of a tool that prints no headings, as data by driver version: a layout is used only if the rows fit it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from llmperf import convert, read_toml

from llmperf_vendorkit.readings import MAX_SHOWN, Inventory, Misfit, Reading, Row, read_rows
from llmperf_vendorkit.tables import PeakTable

WORD = re.compile(r'"[^"]*"|\S+')


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One `[[layout]]` of the file."""

    name: str
    """For messages."""
    drivers: tuple[int, ...]
    """Major versions of the drivers whose tool prints it."""
    fields: tuple[int, int]
    """Fewest and most fields of a row; fields are separated by white space, unless in quotation marks."""
    columns: Mapping[str, int]
    """Number of the column, counted from 1, of each cell: names as in `Reading.from_cells`."""
    source: str
    """Where the layout was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layouts:
    """The file: every layout, and what makes a row plausible."""

    layout: tuple[Layout, ...]
    """In the order in which they are tried."""
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Smallest and largest plausible value of a cell, in its own unit."""
    patterns: Mapping[str, str] = field(default_factory=dict)
    """Regular expression that a cell must match as a whole."""

    def read_rows(
        self, lines: Sequence[str], major: int, command: str, *, models: Mapping[int, str], table: PeakTable
    ) -> Inventory:
        """The rows by the one layout for a driver that most of them fit.

        `models` are the devices' models by index, for layouts without one. A model in `table` must have exactly the
        memory of its entry. OSError that shows a row if the driver is unknown, if no row fits any layout, or if as many
        rows fit two layouts with different readings.
        """
        candidates = [layout for layout in self.layout if major in layout.drivers]
        if not candidates:
            drivers = sorted({driver for layout in self.layout for driver in layout.drivers})
            known = ", ".join(map(str, drivers))
            raise OSError(f"the columns of `{command}` are known for drivers {known}, not for {major}: {_shown(lines)}")
        read = [self._read(layout, lines, command, models, table) for layout in candidates]
        best = max(read, key=lambda inventory: len(inventory.readings))
        if not best.readings:
            reasons = "; ".join(
                f"as {layout.name!r}: {inventory.problems[0] if inventory.problems else 'no rows'}"
                for layout, inventory in zip(candidates, read, strict=True)
            )
            raise OSError(f"no known layout of `{command}` fits {_shown(lines)}: {reasons}")
        if any(len(other.readings) == len(best.readings) and other.readings != best.readings for other in read):
            raise OSError(f"rows of `{command}` fit several layouts with different readings: {_shown(lines)}")
        return best

    def _read(
        self, layout: Layout, lines: Sequence[str], command: str, models: Mapping[int, str], table: PeakTable
    ) -> Inventory:
        def reading(cells: Mapping[str, object]) -> Reading:
            shown = Reading.from_cells({"index": cells["index"], "model": cells.get("model")})
            model = shown.model or models.get(shown.index)
            entry = table.find(model) if model else None
            limits = dict(self.limits)
            if entry is not None and entry.memory_gib is not None:
                limits["memory_total_mib"] = (entry.memory_gib * 1024, entry.memory_gib * 1024)
            try:
                return Reading.from_cells({**cells, "model": model}, limits=limits)
            except Misfit as error:
                if error.cell is None or error.cell not in layout.columns:
                    raise
                raise Misfit(f"column {layout.columns[error.cell]}: {error}") from None

        return read_rows([self._row(layout, line) for line in lines], f"`{command}`", reading)

    def _row(self, layout: Layout, line: str) -> Row:
        words, (fewest, most) = WORD.findall(line), layout.fields
        if not fewest <= len(words) <= most:
            return Row({}, line, f"{len(words)} fields where {fewest} to {most} are expected")
        cells = {name: words[number - 1] for name, number in layout.columns.items()}
        for name, pattern in self.patterns.items():
            if name in cells and not re.fullmatch(pattern, cells[name]):
                return Row({}, line, f"column {layout.columns[name]}: {name} is {cells[name][:40]}")
        return Row(cells, line)


@cache
def read_layouts(path: Path) -> Layouts:
    """The layouts in a TOML file, read once; UserError, with the file and the place in it, if it does not fit."""
    return convert(read_toml(path), Layouts, str(path))


def _shown(lines: Sequence[str]) -> str:
    return repr(lines[0][:MAX_SHOWN]) if lines else "an empty output"
