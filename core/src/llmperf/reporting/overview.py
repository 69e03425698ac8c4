"""Many runs in one table: by model, then by contract, and within one contract the fastest first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import TypeVar

from llmperf.files.user_files import read_toml
from llmperf.reporting.cells import UNKNOWN, shown
from llmperf.reporting.words import sentence, value_text, word
from llmperf.types import Sheet
from llmperf.types.sheet import Column

T = TypeVar("T")

_FILE = Path(__file__).parents[1] / "data" / "columns.toml"
COLUMNS = {key: Column(**column) for key, column in read_toml(_FILE).items()}
"""Columns of a table of runs, by the key of their row in `Sheet.overview`; `contract` is from `Sheet.contract`."""
COMPUTED_MFU = "* computed by llmperf: the document prints none that is understood"
IN_TABLE = ("precision", "seq_len", "global_batch")
"""Parts of the contract that the table shows."""


def columns_of(sheets: Sequence[Sheet]) -> dict[str, Column]:
    """The columns of a table of these sheets: the core's, then those of rows that extensions add."""
    added = {row.key: row.column for sheet in sheets for row in sheet.overview if row.column is not None}
    return COLUMNS | added


def notes(sheets: Sequence[Sheet], columns: Mapping[str, Column], language: str) -> list[str]:
    """Sentences below a table of sheets that explain its columns."""
    computed = [COMPUTED_MFU] if any(map(has_computed_mfu, sheets)) else []
    return [word(note, language) for note in (*computed, *(column.note for column in columns.values() if column.note))]


def model_text(name: str, lora: bool) -> str:
    """`llama2_7b`, or `llama2_7b + LoRA` if only adapters are trained."""
    return f"{name} + LoRA" if lora else name


def overview_cells(sheet: Sheet, columns: Iterable[str] = COLUMNS, language: str = "en") -> list[str]:
    """The cells of a sheet under the columns, by their keys, not yet made harmless."""
    cells = {key: value_text(sheet.cell(key), language) for key in columns if key != "contract"}
    if "mfu_nominal" in cells and has_computed_mfu(sheet):
        cells["mfu_nominal"] = f"{value_text(sheet.cell('mfu_computed'), language)} *"
    contract = ", ".join(sheet.contract.get(part, UNKNOWN) for part in IN_TABLE)
    return [cells.get(key, contract) for key in columns]


def has_computed_mfu(sheet: Sheet) -> bool:
    """Check whether its table shows an MFU that llmperf computed, which COMPUTED_MFU explains."""
    return shown(sheet.cell("mfu_nominal")) == UNKNOWN and sheet.cell("mfu_computed").value is not None


def rerun_line(sheets: Sequence[Sheet], language: str) -> str | None:
    """Measured runs without a rerun or a witness, as far as is recorded; None if there are none."""
    measured = [sheet for sheet in sheets if sheet.measured]
    known = [str(sheet.cell("verification").value or "") for sheet in measured]
    count = sum("rerun" not in levels and "witnessed" not in levels for levels in known)
    if not count:
        return None
    if len(measured) == 1:
        return sentence("Nobody has rerun this run (llmperf validate --rerun): its figures are a claim.", language)
    text = "Nobody has rerun {count} of {all} runs (llmperf validate --rerun): their figures are claims."
    return sentence(text, language, count=count, all=len(measured))


def ordered(sheets: Sequence[Sheet]) -> list[Sheet]:
    """Sheets in the order of a table of them."""
    return in_order(
        sheets, lambda sheet: sheet, lambda sheet: sheet.figure, lambda sheet: sheet.cell("disturbed").value is not None
    )


def in_order(
    items: Sequence[T],
    sheet_of: Callable[[T], Sheet],
    figure_of: Callable[[T], float | None],
    disturbed: Callable[[T], bool],
) -> list[T]:
    """Models by name; of one model the contract with the fastest item first; of one contract the fastest item first.

    Items that were disturbed come after the others of their contract; unknown figures come last.
    """
    places = []
    fastest: dict[Hashable, float] = {}
    for item in items:
        sheet, figure = sheet_of(item), figure_of(item)
        model, speed = shown(sheet.cell("model")), -inf if figure is None else figure
        contract = (model, sheet.measured, tuple(sorted(sheet.contract.items())))
        fastest[contract] = max(fastest.get(contract, -inf), speed)
        places.append((model, contract, (speed == -inf, disturbed(item), -speed), item))
    first = {contract: place for place, contract in enumerate(fastest)}
    places.sort(key=lambda place: (place[0], -fastest[place[1]], first[place[1]], place[2]))
    return [item for *_, item in places]
