"""Kinds of run and imported rows in one ranking, by the rules of reports: imported rows beside runs they may fit."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from llmperf.reporting import (
    IN_TABLE,
    UNKNOWN,
    mostly_disturbed,
    overview_cells,
    percent,
    printable,
    quantile,
    result_sheet,
    sentence,
    sheet_values,
    value_text,
    word,
)
from llmperf.types import Row, Sheet

from llmperf_compare.cost import Costing, Rates, cost_rows, rates_of, training_rows
from llmperf_compare.kinds import AnyComparison, Group
from llmperf_compare.page import MAX_LINE
from llmperf_compare.ranking import Entry, Standing, contract_of, standings
from llmperf_compare.scaling import scaling_rows

ComparedKind = tuple[Group, AnyComparison | None]
"""Runs of one kind, and how they compare with their baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRow:
    """One row of a document at one place of the ranking."""

    entry: Entry
    standing: Standing
    """Standing among which it is ranked."""

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
        by_contract.setdefault(contract_of(result_sheet(kind[0].results[0])), []).append(kind)
    runs = [result_sheet(result) for group, _ in kinds for result in group.results]
    for standing in standings([*runs, *imported]):
        rows = [ImportedRow(entry=entry, standing=standing) for entry in standing.entries if not entry.measured]
        own = next((entry.sheets[0] for entry in standing.entries if entry.measured), None)
        members: list[Ranked] = [*([] if own is None else by_contract.pop(contract_of(own), [])), *rows]
        ranking += sorted(members, key=_place)
    return [*ranking, *(kind for members in by_contract.values() for kind in members)]


def _place(member: Ranked) -> tuple[bool, bool, float]:
    """Sort key of members of one contract, as `Entry.place`."""
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
    return str(next((part.value for part in member.sheet.cell("device").parts if part.value), UNKNOWN))


def imported_heading(row: ImportedRow, language: str) -> str:
    """`llama2_7b, imported: fp16, 4096 tokens x 64`: what rows state that no runs are beside."""
    stated = (row.standing.contract.get(name, UNKNOWN) for name in IN_TABLE)
    values = dict(zip(("precision", "seq_len", "batch"), stated, strict=True))
    text = "{model}, imported: {precision}, {seq_len} tokens x {batch}"
    return printable(sentence(text, language, model=row.standing.model, **values), MAX_LINE)


def imported_cells(row: ImportedRow, language: str) -> tuple[str, ...]:
    """The cells of an imported row under the columns of kinds of run; it has no runs, spread and history."""
    entry = row.entry
    (speed,) = overview_cells(row.sheet, ("tokens_per_second_per_device",), language)
    unknown = UNKNOWN
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
    median = percent(quantile(sorted(headlines), 0.5)) if headlines else UNKNOWN
    return median, word("measured", language)


def kind_rates(group: Group) -> Rates:
    """The rates of repeats of one run, at their median throughput."""
    kind, spread = group.kind, group.spread
    return Rates(
        tokens_per_second_per_device=spread.median / kind.device_share if spread and kind.device_share else None,
        devices=kind.layout.nodes * kind.layout.devices_per_node * kind.device_share,
        joules_per_token=None,
    )


def cost_rows_of(member: Ranked, costing: Costing) -> Iterator[Row]:
    """The cost of a training: at the median throughput of a kind of run, or at that of an imported row."""
    if isinstance(member, ImportedRow):
        return cost_rows(member.sheet, costing)
    kind, first = member[0].kind, member[0].results[0]
    adapters = first.contract.lora is not None
    return training_rows(kind_rates(member[0]), costing, device=kind.device, model=first.model, adapters=adapters)


def scaling_of(ranking: Sequence[Ranked]) -> dict[int, float]:
    """Scaling efficiencies by place: of kinds at their median throughput, and of imported rows."""

    def rates(place: int) -> Rates:
        member = ranking[place]
        return rates_of(sheet_values(member.sheet)) if isinstance(member, ImportedRow) else kind_rates(member[0])

    rows = scaling_rows(list(map(sheet_of, ranking)), rates)
    return {place: float(row.value or 0) for place, row in rows.items()}
