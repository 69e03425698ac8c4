"""Kinds of run and imported rows in one ranking, by the rules of reports: imported rows beside runs they may fit."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from llmperf.reporting import cells
from llmperf.reporting.cells import shown
from llmperf.reporting.exports import sheet_values
from llmperf.reporting.overview import IN_TABLE, overview_cells
from llmperf.reporting.page import MAX_LINE
from llmperf.reporting.ranking import Entry, Standing, standings
from llmperf.reporting.result_sheets import result_sheet
from llmperf.reporting.safe_text import printable
from llmperf.reporting.words import sentence, value_text, word
from llmperf.results.baselines import AnyComparison
from llmperf.results.disturbances import mostly_disturbed
from llmperf.results.groups import Group
from llmperf.results.statistics import quantile
from llmperf.types import Sheet

ComparedKind = tuple[Group, AnyComparison | None]
"""Runs of one kind, and how they compare with their baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRow:
    """One row of a document at one place of the ranking."""

    entry: Entry
    standing: Standing
    """What it is ranked among."""

    @property
    def sheet(self) -> Sheet:
        """The row as reports show it."""
        return self.entry.sheets[0]

    def document(self) -> Mapping[str, Any]:
        """The row for programs, marked as imported; a row that fits several contracts comes with each of them."""
        return {
            "measured": False,
            "name": self.sheet.name,
            "verdict": self.sheet.cell("status").value,
            "beside_runs": self.standing.measured,
            "contract": self.standing.contract,
            "row": sheet_values(self.sheet),
        }


Ranked = ComparedKind | ImportedRow


def ranked_kinds(kinds: Sequence[ComparedKind], imported: Sequence[Sheet]) -> list[Ranked]:
    """Kinds of run in their order; with imported rows, all by the order of `standings`, in each the fastest first."""
    if not imported:
        return list(kinds)
    ranking: list[Ranked] = []
    by_contract: dict[Hashable, list[Ranked]] = {}
    for kind in kinds:
        by_contract.setdefault(_contract(result_sheet(kind[0].results[0])), []).append(kind)
    runs = [result_sheet(result) for group, _ in kinds for result in group.results]
    for standing in standings([*runs, *imported]):
        rows = [ImportedRow(entry=entry, standing=standing) for entry in standing.entries if not entry.measured]
        own = next((entry.sheets[0] for entry in standing.entries if entry.measured), None)
        members: list[Ranked] = [*([] if own is None else by_contract.pop(_contract(own), [])), *rows]
        ranking += sorted(members, key=_place)
    return [*ranking, *(kind for members in by_contract.values() for kind in members)]


def _contract(sheet: Sheet) -> Hashable:
    return printable(shown(sheet.cell("model"))), tuple(sorted(sheet.contract.items()))


def _place(member: Ranked) -> tuple[bool, bool, float]:
    """What members of one contract are sorted by, as `Entry.place`."""
    if isinstance(member, ImportedRow):
        return member.entry.place
    group = member[0]
    speed = -inf if group.spread is None else group.spread.median
    return speed == -inf, mostly_disturbed(group.results), -speed


def sheet_of(member: Ranked) -> Sheet:
    """The sheet of an imported row, or of the first run of a kind."""
    return member.sheet if isinstance(member, ImportedRow) else result_sheet(member[0].results[0])


def device_of(member: Ranked) -> str:
    """Model of the device; a dash where it is unknown."""
    if not isinstance(member, ImportedRow):
        return member[0].kind.device
    return cells.text(next((part.value for part in member.sheet.cell("device").parts), None))


def imported_heading(row: ImportedRow, language: str) -> str:
    """`llama2_7b, imported: fp16, 4096 tokens x 64`: what rows state that no runs are beside."""
    stated = (row.standing.contract.get(name, cells.UNKNOWN) for name in IN_TABLE)
    values = dict(zip(("precision", "seq_len", "batch"), stated, strict=True))
    text = "{model}, imported: {precision}, {seq_len} tokens x {batch}"
    return printable(sentence(text, language, model=row.standing.model, **values), MAX_LINE)


def imported_cells(row: ImportedRow, language: str) -> tuple[str, ...]:
    """The cells of an imported row under the columns of kinds of run; it has no runs, spread and history."""
    entry = row.entry
    (speed,) = overview_cells(row.sheet, ("tokens_per_second_per_device",), language)
    unknown = cells.UNKNOWN
    layout = word(entry.layout, language)
    texts = (entry.device, entry.framework, layout, entry.changes, unknown, speed, unknown, unknown, unknown)
    return tuple(map(printable, texts))


def provenance_cells(member: Ranked, language: str) -> tuple[str, str]:
    """MFU, and whether the figures were measured or are those of an imported row, with its verdict."""
    if isinstance(member, ImportedRow):
        (mfu,) = overview_cells(member.sheet, ("mfu_nominal",), language)
        return printable(mfu), printable(value_text(member.sheet.cell("status"), language))
    complete = [result for result in member[0].results if result.status == "complete"]
    headlines = [mfu.value for result in complete for mfu in result.mfu if mfu.headline and mfu.value is not None]
    median = cells.percent(quantile(sorted(headlines), 0.5)) if headlines else cells.UNKNOWN
    return median, word("measured", language)
