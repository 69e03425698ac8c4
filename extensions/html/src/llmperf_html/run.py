"""One sheet as the page takes it: its row in the table, its sections, its curves.

Most of what thousands of runs say is the same. Each different row, section, finding and contract is in the page once,
and runs refer to it by its index.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from llmperf.reporting import COMPARED, UNKNOWN, finding_text, leaves, printable, shown
from llmperf.types import Curves, Row, Section, Sheet

from llmperf_html.words import COLUMNS, NO_LOSS, NO_RECORDS, TOO_LARGE, word

EXPANDED = ("dependencies", "environment")
"""Rows whose parts have a line each: on a page there is room for all of them."""
MAX_RECENT = 2000
"""Sections that are remembered as objects, because the next sheet may have them too."""


class Distinct:
    """Different values, each once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[Hashable, int] = {}

    def place(self, key: Hashable, value: Any) -> int:
        """The index of a value, which is added if `key` is new."""
        place = self._places.setdefault(key, len(self.values))
        if place == len(self.values):
            self.values.append(value)
        return place


class PageRuns:
    """The runs of a page, and what they share."""

    def __init__(self, language: str) -> None:
        self.rows, self.sections, self.findings = Distinct(), Distinct(), Distinct()
        self.contracts, self.settings = Distinct(), Distinct()
        self._language = language
        self._recent: dict[int, tuple[Section, int]] = {}

    def run(self, sheet: Sheet, repeats: str, with_curves: bool) -> dict[str, Any]:
        """Everything about one run as plain JSON. `repeats` says how it compares with its repeats."""
        sections = list(sheet.sections())
        rows = _by_key(sheet, sections)
        known = sheet.curves() if sheet.curves is not None and with_curves else None
        missing = NO_RECORDS if sheet.curves is None else NO_LOSS if with_curves else TOO_LARGE
        cells, texts = _cells(rows, printable(sheet.name), repeats or UNKNOWN)
        compared = [rows.get(key) for key in COMPARED]
        setting = tuple((word(label, self._language), text) for label, text in sheet.setting.items())
        findings = [(finding.severity, finding_text(finding)) for finding in sheet.findings]
        return {
            "row": [*cells, sheet.cell("errors").value],
            "printed": [None if _says(cell) == text else text for cell, text in zip(cells, texts, strict=True)],
            "measured": sheet.measured,
            "complete": not sheet.measured or sheet.cell("status").value == "complete",
            "contract": self.contracts.place(tuple(sheet.contract.items()), sheet.contract),
            "setting": self.settings.place(setting, dict(setting)),
            "figures": [(None, UNKNOWN) if cell is None else (cell.value, printable(shown(cell))) for cell in compared],
            "sections": [self._section(section) for section in _first_of_each_key(sections)],
            "findings": [self.findings.place(finding, {"severity": finding[0], "text": finding[1]})
                         for finding in findings],
            "curves": None if known is None else _curves(known),
            **({} if known else {"no_curves": word(missing, self._language)}),
        }  # fmt: skip

    def _section(self, section: Section) -> int:
        """Index of a section: title, level of the heading, headers, and indexes of rows of cells.

        Without headers, the first cell of a row is its label.
        """
        if id(section) not in self._recent:
            if len(self._recent) >= MAX_RECENT:
                self._recent.clear()
            self._recent[id(section)] = section, self._added(section)
        return self._recent[id(section)][1]

    def _added(self, section: Section) -> int:
        title, headers, lines = word(section.title, self._language), [], list(_lines(section, self._language))
        if section.records:
            headers = [printable(word(cell.label, self._language)) for cell in section.records[0]]
        rows = [self.rows.place(line, line) for line in lines]
        key = (title, section.level, tuple(headers), tuple(rows))
        return self.sections.place(key, {"title": title, "level": section.level, "headers": headers, "rows": rows})


def rows_by_key(sheet: Sheet) -> dict[str, Row]:
    """The rows of a sheet by key, composed ones and their parts."""
    return _by_key(sheet, sheet.sections())


def _by_key(sheet: Sheet, sections: Iterable[Section]) -> dict[str, Row]:
    named: dict[str, Row] = {}
    rows = [*sheet.overview, *(row for section in sections for row in section.rows)]
    for row in [*sheet.overview, *leaves(rows)]:
        named.setdefault(row.key, row)
    return named


def _cells(rows: Mapping[str, Row], run: str, repeats: str) -> tuple[list[str | float | None], list[str]]:
    """Each cell of the table as a number or a text, None where unknown; and as it is shown."""
    own = {"run": run, "repeats": repeats}
    cells: list[str | float | None] = []
    texts: list[str] = []
    for column in COLUMNS:
        row = rows.get(column.key)
        text = own.get(column.field) or (UNKNOWN if row is None else printable(shown(row)))
        value = None if row is None else row.value
        if column.field in own or (value is None and row is not None and row.parts):
            cells.append(text)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            cells.append(value)
        else:
            cells.append(None if value is None else text)
        texts.append(text)
    return cells, texts


def _says(cell: str | float | None) -> str | None:
    """The text that the page shows for a cell without a text of its own."""
    return UNKNOWN if cell is None else cell if isinstance(cell, str) else None


def _first_of_each_key(sections: Iterable[Section]) -> Iterator[Section]:
    """All sections; of several with one key only the first, which sums up the others."""
    keys: set[str] = set()
    for section in sections:
        if section.key not in keys:
            keys.add(section.key)
            yield section


def _lines(section: Section, language: str) -> Iterator[tuple[str, ...]]:
    """The rows of a section as cells."""
    if section.records:
        yield from (tuple(printable(shown(row)) for row in record) for record in section.records)
    else:
        for row in section.rows:
            for part in row.parts if row.key in EXPANDED else (row,):
                label = (printable(word(part.label, language)),) if part.label else ()
                yield (*label, printable(shown(part)))
    yield from ((line,) for line in section.lines)


def _curves(curves: Curves) -> Mapping[str, Any]:
    """Curves to six digits, which is more than a screen shows."""
    data: dict[str, Any] = {}
    for name, curve in curves.by_name.items():
        points = {part: [float(f"{value:.6g}") for value in getattr(curve, part)] for part in ("x", "middle")}
        if name != "loss":
            points |= {part: [float(f"{value:.6g}") for value in getattr(curve, part)] for part in ("low", "high")}
        data[name] = {**points, "of": curve.of}
    limits = ("window_seconds", "entropy", "warmup_steps")
    return data | {name: getattr(curves, name) for name in limits}
