"""One sheet as the page takes it; what runs share, such as rows and findings, is there once, by its index."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from llmperf.reporting import UNKNOWN, finding_text, leaves, printable, rounded, shown, value_text, word
from llmperf.types import Curves, Result, Row, Section, Sheet
from llmperf_compare.kind_texts import disturbed_lines

from llmperf_html.columns import COLUMNS, COMPARED_FIGURES, COMPUTED
from llmperf_html.document import NO_LOSS, NO_RECORDS, TOO_LARGE
from llmperf_html.run_curves import curves_of

EXPANDED = ("dependencies", "environment")
"""Rows whose parts have a line each: on a page there is room for all of them."""
FOLDED = ("environment", "mfu", "rank_memory", "nodes", "notes", "general", "batch", "parallelism", "optimisation")
"""Keys of sections that few readers need."""
OWN_SETTINGS = ("layout", "gradient_checkpointing")
"""Settings whose values are words of llmperf; others have names of users, plugins and machines."""
MONEY = ("cost_per_million_tokens", "train_cost")
"""Keys of figures in a currency."""
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
        self.compared: dict[bool, dict[str, Row]] = {True: {}, False: {}}
        """The first row of each figure of comparisons, of measured runs and of others."""
        self._language = language
        self._recent: dict[int, tuple[Section, int]] = {}

    def run(self, sheet: Sheet, with_curves: bool) -> dict[str, Any]:
        """Everything about one run as plain JSON."""
        sections = list(sheet.sections())
        rows = _by_key(sheet, sections)
        first = self.compared[sheet.measured]
        first.update((key, rows[key]) for key in COMPARED_FIGURES if key in rows and key not in first)
        known = curves_of(sheet) if with_curves else None
        may_have = sheet.curves is not None or isinstance(sheet.source.document, Result)
        missing = NO_RECORDS if not may_have else NO_LOSS if with_curves else TOO_LARGE
        cells, texts = _cells(sheet, rows, self._language)
        setting = tuple(
            (word(label, self._language), word(text, self._language) if label in OWN_SETTINGS else text)
            for label, text in sheet.setting.items()
        )
        findings = [(finding.severity, finding_text(finding, self._language)) for finding in sheet.findings]
        return {
            "row": cells,
            "printed": texts,
            "measured": sheet.measured,
            "complete": not sheet.measured or sheet.cell("status").value == "complete",
            "bad": bool(sheet.cell("errors").value) or sheet.cell("status").value in ("failed", "aborted", "wrong"),
            "contract": self.contracts.place(tuple(sheet.contract.items()), sheet.contract),
            "setting": self.settings.place(setting, dict(setting)),
            "figures": [_compared(sheet, rows, key, self._language) for key in COMPARED_FIGURES],
            "sections": [self._section(section) for section in first_of_each_key(sections)],
            "findings": [self.findings.place(finding, {"severity": finding[0], "text": finding[1]})
                         for finding in findings],
            "curves": None if known is None else curve_data(known, self._language),
            "waiting": waiting.value if (waiting := rows.get("communication_share")) else None,
            **_conditions(sheet, self._language),
            **({} if known else {"no_curves": word(missing, self._language)}),
        }  # fmt: skip

    def _section(self, section: Section) -> int:
        """Index of a section: title, level, headers, rows of cells; without headers, first cells are labels."""
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
        fold = is_folded(section)
        key = (title, section.level, tuple(headers), tuple(rows), fold)
        value = {
            "key": section.key,
            "title": title,
            "level": section.level,
            "headers": headers,
            "rows": rows,
            "fold": fold,
        }
        return self.sections.place(key, value)


def is_folded(section: Section) -> bool:
    """Check whether a section is shown only when the reader opens the environment and details."""
    return section.key in FOLDED or section.level > 2


def _compared(sheet: Sheet, rows: Mapping[str, Row], key: str, language: str) -> Any:
    """A figure of a comparison: its value, or the value and how it is shown."""
    cell, computed = rows.get(key), rows.get(COMPUTED[key]) if key in COMPUTED else None
    if computed is not None and (cell is None or cell.value is None):
        return computed.value, f"{printable(shown(computed))} ({word('computed', language)})"
    if cell is None:
        return None
    return cell.value if sheet.measured and cell.key not in MONEY else (cell.value, printable(shown(cell)))


def _conditions(sheet: Sheet, language: str) -> dict[str, Any]:
    """Conditions of a run; only what is so."""
    result = sheet.source.document
    if not isinstance(result, Result):
        return {}
    lines = disturbed_texts([sheet], language)
    return {name: value for name, value in (("divided", result.hardware.divided), ("disturbed", lines)) if value}


def disturbed_texts(sheets: Sequence[Sheet], language: str) -> list[str]:
    """Warnings of `llmperf compare` about disturbed runs of a `{side}`."""
    results = [document for sheet in sheets if isinstance(document := sheet.source.document, Result)]
    return [line.text for line in disturbed_lines("{side}", results, language)]


def _by_key(sheet: Sheet, sections: Iterable[Section]) -> dict[str, Row]:
    """The rows of a sheet by key, composed ones and their parts."""
    named: dict[str, Row] = {}
    rows = [*sheet.overview, *(row for section in sections for row in section.rows)]
    for row in [*sheet.overview, *leaves(rows)]:
        named.setdefault(row.key, row)
    return named


def _cells(sheet: Sheet, rows: Mapping[str, Row], language: str) -> tuple[list[str | float | None], list[str | None]]:
    """Each cell of the table as a number or a text, None where unknown; and its text where scripts cannot make it."""
    cells: list[str | float | None] = []
    texts: list[str | None] = []
    for column in COLUMNS:
        row = rows.get(column.key)
        if column.also and (row is None or row.value is None):
            row = rows.get(column.also, row)
        if column.field == "run":
            row = Row(key="run", label="run", value=printable(sheet.name))
        elif column.cost:
            adapters = shown(sheet.cell("model")).endswith("LoRA")  # nobody pretrains with adapters
            shown_rows = () if adapters and column.field.startswith("train_") else sheet.overview
            row = next((row for row in shown_rows if row.key == column.key), None)
        text = UNKNOWN if row is None else printable(value_text(row, language))
        value = None if row is None else row.value
        if column.rounding is None:
            cells.append(None if text == UNKNOWN else text)
            texts.append(None)
        else:
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            cells.append(value if number else None)
            computed = row is not None and row.key == column.also and number
            made = rounded(value, column.rounding) if number else UNKNOWN  # type: ignore[arg-type]
            texts.append(f"{made} ({word('computed', language)})" if computed else None if made == text else text)
    return cells, texts


def key_figures(sheet: Sheet, language: str) -> Iterator[tuple[str, str]]:
    """Title and text of each figure of the table that is known for a run."""
    cells, texts = _cells(sheet, _by_key(sheet, sheet.sections()), language)
    for column, value, text in zip(COLUMNS, cells, texts, strict=True):
        if column.rounding is not None and (value is not None or text is not None):
            number = None if isinstance(value, str) else value
            yield word(column.title, language), text or rounded(number, column.rounding)


def first_of_each_key(sections: Iterable[Section]) -> Iterator[Section]:
    """All sections; of several with one key only the first, which sums up the others."""
    keys: set[str] = set()
    for section in sections:
        if section.key not in keys:
            keys.add(section.key)
            yield section


def _lines(section: Section, language: str) -> Iterator[tuple[str, ...]]:
    """The rows of a section as cells."""
    if section.records:
        yield from (tuple(printable(value_text(row, language)) for row in record) for record in section.records)
    else:
        for row in section.rows:
            for part in row.parts if row.key in EXPANDED else (row,):
                label = (printable(word(part.label, language)),) if part.label else ()
                yield (*label, printable(value_text(part, language)))
    yield from ((line,) for line in section.lines)


def curve_data(curves: Curves, language: str) -> Mapping[str, Any]:
    """Curves to six digits, which is more than a screen shows."""
    data: dict[str, Any] = {}
    for name, curve in curves.by_name.items():
        points = {part: [float(f"{value:.6g}") for value in getattr(curve, part)] for part in ("x", "middle")}
        if name not in ("loss", "step_ends"):
            points |= {part: [float(f"{value:.6g}") for value in getattr(curve, part)] for part in ("low", "high")}
        data[name] = {**points, "of": curve.of}
    data |= {name: getattr(curves, name) for name in ("window_seconds", "entropy", "warmup_steps")}
    data["expected_basis"] = word(printable(curves.expected_basis), language)
    return data | {
        "phases": list(curves.phase_seconds.items()),
        "traced": list(curves.traced_seconds.items()),
        "expected": dict(curves.expected),
    }
