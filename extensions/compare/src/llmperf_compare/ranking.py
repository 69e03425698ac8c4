"""Ranking of the runs of one contract: the answer that summaries, reports and sites open with."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

from llmperf.reporting import UNKNOWN, leaves, printable, quantile, shown
from llmperf.types import Sheet

How = Literal["measured", "printed", "computed", "estimated"]
"""How a figure was made: measured by llmperf, printed in an imported document, computed here from printed ones,
or estimated."""
Verdict = Literal["valid", "warnings", "errors", "unchecked", "failed"]
"""Verdict of validation. Of an imported row, `valid` says only that its printed figures agree with each other, and
`unchecked` that none was recomputed; `failed`: the run has no figures."""

RANKED_BY = "tokens_per_second_per_device"
_OF_OTHER_KEYS = {"mfu_nominal": ("mfu_nominal", "mfu_computed"), "step_seconds": ("step_seconds_median",)}
FIGURES = {
    name: _OF_OTHER_KEYS.get(name, (name,)) for name in (
        RANKED_BY, "mfu_nominal", "joules_per_token", "tokens_per_joule", "power_watts", "device_memory_used_bytes",
        "step_seconds", "final_loss", "cost_per_million_tokens", "train_device_hours", "train_seconds", "train_cost",
        "scaling_efficiency",
    )
}  # fmt: skip
"""Each figure of an entry, and the keys of the rows of `Sheet.overview` that give it; the first that is known does."""
WHOLE_DEVICE = "tokens_per_second_per_whole_device"
"""The figure beside RANKED_BY of entries whose ranks share devices: all ranks of one device together."""
PER_SPEED = ("cost_per_million_tokens", "train_device_hours", "train_seconds", "train_cost")
"""Figures that are inversely proportional to the throughput: those of an entry are at its median throughput."""
SHARED = ("model", "precision", "seq_len", "global_batch")
"""Parts of the contract that an imported row must state to be ranked beside runs."""
SHOWN_OTHERWISE = ("device", "nodes x devices", "share of a device per rank", "framework", "layout",
                   "gradient_accumulation")  # fmt: skip
"""Parts of `Sheet.setting` that an entry has elsewhere, or that follow from its batch and layout."""
_WORST: tuple[Verdict, ...] = ("errors", "failed", "warnings", "unchecked", "valid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """One figure over the repeats of a run."""

    median: float
    """In the unit of the row that it is from."""
    low: float | None
    """The least; None for a single run, which has no spread. Of an estimate the least at its expected error."""
    high: float | None
    """The largest."""
    runs: int
    """Complete runs that have the figure."""
    how: How
    currency: str = ""
    """Currency of a cost, such as `USD`; empty for other figures. Costs in different currencies must not be ranked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Repeats of one run, or one imported row."""

    device: str
    """`1x8 NVIDIA A100-SXM4-80GB`."""
    framework: str
    layout: str
    """`TP4 x PP1 x DP2`."""
    changes: str
    """Changes from the case, as `fix_hp` prints them."""
    settings: Mapping[str, str]
    """Further settings in which the entries of its standing differ, by name, as far as they are known."""
    measured: bool
    """The figures were measured by llmperf; False for an imported row."""
    stated: tuple[str, ...]
    """The parts of the contract that are known: all of a run, a few of an imported row."""
    sheets: tuple[Sheet, ...]
    """All repeats, the fastest first, also those that failed."""
    figures: Mapping[str, Interval]
    """By the names in FIGURES, and WHOLE_DEVICE; an unknown figure is absent."""
    verdict: Verdict
    """The worst of its runs."""
    disturbed: bool
    """Half of its complete runs or more were disturbed: it ranks below entries that were not."""
    levels: str | None
    """Highest level of verification that is recorded for all of its runs; None where one has no record."""

    @property
    def speed(self) -> float:
        """Median token/p/s, by which entries are ranked; -inf where unknown."""
        known = self.figures.get(RANKED_BY)
        return -inf if known is None else known.median

    @property
    def place(self) -> tuple[bool, bool, float]:
        """Sort key of entries of one contract."""
        return self.speed == -inf, self.disturbed, -self.speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Entries whose figures may be compared, because they have one contract."""

    model: str
    """`llama2_7b`, or `llama2_7b + LoRA`."""
    contract: Mapping[str, str]
    """By path: of the runs, or what the imported rows state where there are no runs."""
    measured: bool
    """There are runs among the entries."""
    entries: tuple[Entry, ...]
    """The fastest first, disturbed ones after the others; those without a figure last."""


def standings(sheets: Sequence[Sheet]) -> list[Standing]:
    """Sheets by model and contract: models with runs first, then by name, of one model the fastest contract first.

    Runs are together if their contracts are equal. An imported row, which states a few parts, is ranked with each one
    that agrees with them, if these include SHARED; otherwise with rows that state the same.
    """
    runs: dict[Hashable, list[Sheet]] = {}
    imported: dict[Hashable, list[Sheet]] = {}
    for sheet in sheets:
        if sheet.measured:
            runs.setdefault(contract_of(sheet), []).append(sheet)
    for sheet in sheets:
        if sheet.measured:
            continue
        homes = [
            key for key, (run, *_) in runs.items()
            if _model(sheet) == _model(run) and all(name in sheet.contract for name in SHARED)
            and all(run.contract.get(name, text) == text for name, text in sheet.contract.items())
        ]  # fmt: skip
        for home in homes:
            runs[home].append(sheet)
        if not homes:
            imported.setdefault(contract_of(sheet), []).append(sheet)
    groups = (*runs.values(), *imported.values())
    made = [
        Standing(model=_model(group[0]), contract=group[0].contract, measured=group[0].measured,
                 entries=tuple(sorted(_entries(group), key=lambda entry: entry.place)))
        for group in groups
    ]  # fmt: skip
    own = {standing.model for standing in made if standing.measured}
    return sorted(made, key=lambda each: (each.model not in own, each.model, -each.entries[0].speed))


def contract_of(sheet: Sheet) -> Hashable:
    """The model and the whole contract of a sheet: only sheets with an equal one may be ranked together."""
    return _model(sheet), tuple(sorted(sheet.contract.items()))


def _model(sheet: Sheet) -> str:
    return printable(shown(sheet.cell("model")))


def _entries(sheets: Sequence[Sheet]) -> Iterator[Entry]:
    """Sheets of one contract, repeats together."""
    settings = {id(sheet.setting): sheet.setting for sheet in sheets}.values()  # runs do not list defaults
    names = dict.fromkeys(name for setting in settings for name in setting if name not in SHOWN_OTHERWISE)
    differing = [name for name in names if len({setting.get(name) for setting in settings}) > 1]
    kinds: dict[Hashable, list[Sheet]] = {}
    for sheet in sheets:
        kinds.setdefault(id(sheet) if sheet.repeats is None else sheet.repeats, []).append(sheet)
    for repeats in kinds.values():
        members = sorted(repeats, key=lambda sheet: -inf if sheet.figure is None else -sheet.figure)
        members.sort(key=lambda sheet: sheet.figure is None)
        first = members[0]
        levels = {sheet.cell("verification").value and shown(sheet.cell("verification")) for sheet in members}
        marks = [sheet.cell("disturbed").value is not None for sheet in members if sheet.figure is not None]
        yield Entry(
            device=printable(shown(first.cell("device"))),
            framework=printable(str(first.cell("layout").value or UNKNOWN)),
            layout=first.setting.get("layout", UNKNOWN),
            changes=printable(shown(first.cell("fix_hp"))),
            settings={name: first.setting[name] for name in differing if name in first.setting},
            measured=first.measured,
            stated=tuple(first.contract),
            sheets=tuple(members),
            figures=_figures(members),
            verdict=min(map(_verdict, members), key=_WORST.index),
            disturbed=2 * sum(marks) >= len(marks) > 0,
            levels=str(levels.pop()) if len(levels) == 1 and levels != {None} else None,
        )


def _verdict(sheet: Sheet) -> Verdict:
    status = sheet.cell("status").value
    if sheet.cell("errors").value:
        return "errors"
    if sheet.measured:
        return "failed" if status != "complete" else "warnings" if sheet.cell("warnings").value else "valid"
    if sheet.cell("warnings").value:
        return "warnings"
    return {"agrees": "valid", "wrong": "errors"}.get(str(status), "unchecked")  # type: ignore[return-value]


def _figures(repeats: Sequence[Sheet]) -> dict[str, Interval]:
    """Figures over the complete repeats."""
    measured = repeats[0].measured
    counted = [sheet for sheet in repeats if not measured or sheet.cell("status").value == "complete"]
    values = [
        {row.key: float(row.value) for row in (*sheet.overview, *leaves(sheet.overview))
         if isinstance(row.value, (int, float)) and not isinstance(row.value, bool)}
        for sheet in counted
    ]  # fmt: skip
    figures: dict[str, Interval] = {}
    for name, keys in FIGURES.items():
        key = next((key for key in keys if any(key in known for known in values)), None)
        if key is None:
            continue
        ordered = sorted(known[key] for known in values if key in known)
        computed = key.endswith("_computed") or name == "scaling_efficiency"
        how: How = "measured" if measured else "computed" if computed else "printed"
        if repeats[0].cell("provenance").value == "estimated":
            how = "estimated"
        if name in PER_SPEED:
            products = [known[name] * known[RANKED_BY] for known in values if name in known and RANKED_BY in known]
            speed = figures.get(RANKED_BY)
            if speed is None or not products or not speed.median:
                continue
            units = (sheet.cell(name).unit for sheet in counted if sheet.cell(name).value)
            figures[name] = Interval(
                median=products[0] / speed.median,
                low=products[0] / speed.high if speed.low and speed.high else None,
                high=products[0] / speed.low if speed.low and speed.high else None,
                runs=speed.runs,
                how=speed.how if speed.how in ("measured", "estimated") else "computed",
                currency=next(units) if "cost" in name else "",
            )
            continue
        ends: tuple[float | None, float | None] = (ordered[0], ordered[-1]) if len(ordered) > 1 else (None, None)
        if how == "estimated" and name == RANKED_BY:
            ends = values[0].get("tokens_per_second_least"), values[0].get("tokens_per_second_most")
        figures[name] = Interval(
            median=quantile(ordered, 0.5),
            low=ends[0],
            high=ends[1],
            runs=len(ordered),
            how=how,
        )
    share = values[0].get("device_share") if values else None
    if share and share < 1 and (speed := figures.get(RANKED_BY)) is not None:
        low, high = (None if value is None else value / share for value in (speed.low, speed.high))
        figures[WHOLE_DEVICE] = replace(speed, median=speed.median / share, low=low, high=high)
    return figures
