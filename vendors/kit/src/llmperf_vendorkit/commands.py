"""Management commands that print rows, tables or JSON, and how several of them make one reading per device."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llmperf_vendorkit.readings import (
    FIGURES,
    MAX_SHOWN,
    TEXTS,
    Absent,
    Inventory,
    Reading,
    Row,
    is_shown,
    read_rows,
    text,
)
from llmperf_vendorkit.tool import json_output, tool_output

RULE = frozenset("+-=|─━═│┃┼╪ \t")
"""Letters of the lines between the rows of a table."""
LASTING = (*TEXTS, "index", "card", "chip", *(name for name in FIGURES if name.startswith("memory_total")))
"""Cells that readings keep from the inventory."""
Paths = str | tuple[str, ...]
"""Keys joined by dots, such as `power.draw`; of several paths, the first that shows something counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvCommand:
    """A command that prints one line for each device, without headings."""

    argv: tuple[str, ...]
    """Program and arguments."""
    columns: tuple[str, ...]
    """Name of each cell in its order: names of `FIGURES` or `TEXTS`, `index`, `card`, `chip`, details; "" for a cell
    that is not used."""
    separator: str | None = ","
    """Between cells; None for any white space."""
    seconds: float = 10.0
    """Longest time that the command may take."""

    def rows(self) -> list[Row]:
        """A row for each line; OSError where the command gives no answer."""
        lines = [line for line in tool_output(self.argv, seconds=self.seconds).splitlines() if line.strip()]
        return [self._row(line) for line in lines]

    def _row(self, line: str) -> Row:
        cells = [cell.strip() for cell in line.split(self.separator)]
        if len(cells) != len(self.columns):
            names = ", ".join(name or "(not used)" for name in self.columns)
            return Row({}, line, f"{len(cells)} cells where {len(self.columns)} are expected: {names}")
        return Row({name: cell for name, cell in zip(self.columns, cells, strict=True) if name}, line)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommand:
    """A command that prints a table with headings; only the first such table is read."""

    argv: tuple[str, ...]
    """Program and arguments."""
    columns: Mapping[str, str]
    """Name of the cell by its heading in the table; other columns are not used."""
    separator: str = "|"
    """Between cells; `,` for CSV with headings."""
    seconds: float = 10.0
    """Longest time that the command may take."""

    def rows(self) -> list[Row]:
        """A row for each line below the headings; OSError where there is no answer or no such table."""
        printed = tool_output(self.argv, seconds=self.seconds)
        headings: list[str] = []
        rows = []
        for line in printed.splitlines():
            cells = [cell.strip() for cell in line.strip().strip(self.separator).split(self.separator)]
            if not headings:
                headings = cells if self.columns.keys() <= set(cells) else []
            elif len(cells) == len(headings):
                by_heading = dict(zip(headings, cells, strict=True))
                rows.append(Row({name: by_heading[heading] for heading, name in self.columns.items()}, line))
            elif not set(line) <= RULE:
                break
        if not headings:
            expected = f"a table with the columns {', '.join(self.columns)}"
            raise OSError(f"{self.argv[0]}: expected {expected}, found {printed.strip()[:160]!r}")
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonCommand:
    """A command that prints a JSON document with a list, or an object, of devices or of cards."""

    argv: tuple[str, ...]
    """Program and arguments."""
    fields: Mapping[str, Paths]
    """Path in a device's object for each name of a cell; in a chip's object where cards have `chips`."""
    devices: str = ""
    """Path of the devices in the document; a document that is a list is the devices itself."""
    keys: str = r"\D*(\d{1,4})"
    """Pattern of the keys of an object of devices; its group is the `index`."""
    skip: tuple[str, ...] = ()
    """Keys of entries beside the devices that are none, or keys in such entries."""
    chips: str = ""
    """Path in a card's object of its list of chips, where each chip is a device; a chip without a `chip` has its
    position in the list. A card without such a list is left out, with a line in `problems`."""
    card_fields: Mapping[str, Paths] = field(default_factory=dict)
    """Path in a card's object for each cell that the card has, where cards have `chips`. `card` must be among them;
    texts, such as `model`, pass to its chips, and figures only if it has a single chip."""
    shared: Mapping[str, Paths] = field(default_factory=dict)
    """Path in the document for each cell that is the same for all devices, such as the driver's version."""
    seconds: float = 10.0
    """Longest time that the command may take."""

    def rows(self) -> list[Row]:
        """A row for each device, and one for each card with chips; OSError where there is no answer or no such list."""
        document = json_output(self.argv, seconds=self.seconds)
        listed = document if isinstance(document, list) else at(document, self.devices) if self.devices else document
        if isinstance(listed, Mapping):
            entries = [(key, entry) for key, entry in listed.items() if key not in self.skip]
        elif isinstance(listed, list):
            entries = [(None, entry) for entry in listed]
        else:
            where = f" under {self.devices!r}" if self.devices else ""
            found = _absent(document, self.devices) if listed is None else _shown(listed)
            raise OSError(f"{self.argv[0]}: expected a JSON list or object of devices{where}, found {found}")
        shared = _cells(document, self.shared)
        return [row for key, entry in entries for row in self._rows(key, entry, shared)]

    def _rows(self, key: str | None, entry: Any, shared: Mapping[str, object]) -> Iterator[Row]:
        shown = _shown(entry if key is None else {key: entry})
        match = re.fullmatch(self.keys, key) if key is not None else None
        if not isinstance(entry, Mapping):
            yield Row({}, shown, "expected an object for each device")
        elif key is not None and match is None:
            yield Row({}, shown, f"expected a key like {self.keys}")
        elif not set(self.skip) & entry.keys():
            own = {"index": match[1]} if match and "index" not in self.fields else {}
            if not self.chips:
                yield Row({**shared, **own, **_cells(entry, self.fields)}, shown)
                return
            card = _cells(entry, self.card_fields)
            chips = at(entry, self.chips)
            chips = list(chips.values()) if isinstance(chips, dict) else chips
            if not isinstance(chips, list) or not chips:
                found = _absent(entry, self.chips) if chips is None else _shown(chips)
                yield Row({}, shown, f"expected a list of chips under {self.chips!r}, found {found}")
                return
            for position, chip in enumerate(chips):
                if isinstance(chip, Mapping):
                    cells = _cells(chip, self.fields)
                    cells["chip"] = cells["chip"] if is_shown(cells.get("chip")) else position
                    yield Row({**shared, "card": card.get("card"), **cells}, _shown(chip))
                else:
                    yield Row({}, _shown(chip), "expected an object for each chip")
            if not is_shown(card.get("card")):
                yield Row({}, shown, "expected the number of the card under 'card' of card_fields")
            elif any(isinstance(chip, Mapping) for chip in chips):
                yield Row(card, shown)


Command = CsvCommand | TableCommand | JsonCommand
"""A command and what its output means."""


class CommandReader:
    """One reading for each device from one or several commands.

    The first command lists the devices: one row for each chip that ranks can use. Rows of other commands are joined to
    them by `index`, else by `card` and `chip`, else by their order. A row with a `card` and no `chip` is of the whole
    card: if the card has several chips, its figures are no chip's own and are left out, with a line in `problems`.
    """

    def __init__(
        self,
        *commands: Command,
        readings: Sequence[Command] = (),
        read: Callable[[Mapping[str, object]], Reading] = Reading.from_cells,
    ) -> None:
        """`readings` are the commands to repeat about once a second; all of them if left out."""
        self._commands = commands
        self._repeated = tuple(readings)
        self._read = read
        self._known: list[dict[str, object]] = []

    def inventory(self) -> Inventory:
        """Every device by all commands.

        OSError if the first command gives no answer; the failure of another one is a line in `problems`.
        """
        first, *others = self._commands
        devices, cards = _devices(first.rows())
        problems = _join(devices, cards, _source(first))
        for command in others:
            try:
                problems += _join(devices, command.rows(), _source(command))
            except OSError as error:
                problems.append(str(error))
        self._known = [
            {"index": position, **{name: cell for name, cell in row.cells.items() if name in LASTING}}
            for position, row in enumerate(devices)
            if row.fault is None
        ]
        inventory = read_rows(devices, _source(first), self._read)
        return replace(inventory, problems=(*inventory.problems, *problems))

    def readings(self) -> Inventory:
        """Every device by the commands for readings; OSError if none of them gives an answer."""
        if not self._repeated:
            return self.inventory()
        if not self._known:
            self.inventory()
        devices = [Row(dict(cells), str(cells)) for cells in self._known]
        failures = []
        for command in self._repeated:
            try:
                _join(devices, command.rows(), _source(command))
            except OSError as error:
                failures.append(error)
        if len(failures) == len(self._repeated):
            raise failures[0]
        return read_rows(devices, _source(self._repeated[0]), self._read)


def at(document: Any, path: str) -> Any:
    """The value at a path of keys joined by dots, or of a key that has dots itself; None if there is none."""
    if isinstance(document, Mapping) and path in document:
        return document[path]
    for key in path.split("."):
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def _cells(document: Any, fields: Mapping[str, Paths]) -> dict[str, object]:
    cells: dict[str, object] = {}
    for name, paths in fields.items():
        values = [at(document, path) for path in ([paths] if isinstance(paths, str) else paths)]
        cells[name] = next((value for value in values if is_shown(value)), None)
        if isinstance(paths, str) and name in FIGURES and values == [None] and not _has(document, paths):
            cells[name] = Absent(paths)
    return cells


def _has(document: Any, path: str) -> bool:
    """Check whether a document has a path, be its value null."""
    if isinstance(document, Mapping) and path in document:
        return True
    *before, last = path.split(".")
    inner = at(document, ".".join(before)) if before else document
    return isinstance(inner, Mapping) and last in inner


def _shown(document: Any) -> str:
    """The beginning of a document on one line."""
    try:
        return json.dumps(document)[:MAX_SHOWN]
    except RecursionError:
        return "a deeply nested document"


def _absent(document: Any, path: str) -> str:
    """The contents at a path without the value: null, or the keys of the innermost object that exists."""
    for key in path.split("."):
        if not isinstance(document, Mapping) or key not in document:
            break
        document = document[key]
    if not isinstance(document, Mapping):
        return _shown(document)
    return f"the keys {', '.join(map(repr, document))}"[:MAX_SHOWN] if document else "no keys"


def _source(command: Command) -> str:
    """Program and subcommand."""
    program, *arguments = command.argv
    return " ".join([program, *(word for word in arguments[:1] if not word.startswith("-"))])


def _of_a_card(row: Row) -> bool:
    """Check whether a row names a card, and neither a chip nor a device."""
    return is_shown(row.cells.get("card")) and not any(is_shown(row.cells.get(name)) for name in ("chip", "index"))


def _devices(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """The rows of devices, and those of cards whose chips have rows of their own."""
    with_chips = {text(row.cells.get("card")) for row in rows if is_shown(row.cells.get("chip"))}
    cards = [row for row in rows if _of_a_card(row) and text(row.cells.get("card")) in with_chips]
    devices = [Row(dict(row.cells), row.text, row.fault) for row in rows if row not in cards]
    return devices, cards


def _join(devices: list[Row], rows: Sequence[Row], source: str) -> list[str]:
    """Adds the cells of rows to their devices; returns a line for each row without one, and for figures of a card that
    has several chips, or may have: a row that does not fit could be another chip's."""
    problems = []
    of_cards: dict[str, list[str]] = {}
    incomplete = any(device.fault for device in devices)
    for position, row in enumerate(rows):
        matches = _matches(devices, row, position) if row.fault is None else []
        if not matches:
            reason = row.fault or "it is of no device that is listed"
            problems.append(f"{source}: a row does not fit and is left out: {reason} in {row.text[:MAX_SHOWN]!r}")
        for device in matches:
            for name, cell in row.cells.items():
                if name in FIGURES and (len(matches) > 1 or (incomplete and _of_a_card(row))):
                    cards = of_cards.setdefault(name, []) if is_shown(cell) else []
                    card = str(row.cells["card"])
                    cards.extend([card] if card not in cards else [])
                elif not is_shown(device.cells.get(name)):
                    device.cells[name] = cell  # type: ignore[index]
    for name, cards in of_cards.items():
        problems.append(
            f"{source}: {name} of a card with several chips is left out, since it is no chip's own: card"
            f" {', '.join(cards)}"
        )
    return problems


def _matches(devices: Sequence[Row], row: Row, position: int) -> list[Row]:
    index, card, chip = (text(row.cells.get(name)) for name in ("index", "card", "chip"))
    if index is not None:
        indices = [text(device.cells.get("index")) or str(place) for place, device in enumerate(devices)]
        return [devices[indices.index(index)]] if index in indices else []
    if card is None:
        return list(devices[position : position + 1])
    return [
        device
        for device in devices
        if text(device.cells.get("card")) == card and (chip is None or text(device.cells.get("chip")) == chip)
    ]
