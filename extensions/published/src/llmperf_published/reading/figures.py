"""The figures of one row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from llmperf_published.reading.cell_text import normal, plain, withheld
from llmperf_published.reading.figure_units import counts_samples, read_figure
from llmperf_published.reading.memory_cells import memory, unit_in
from llmperf_published.reading.sections import Contents
from llmperf_published.reading.settings import truth
from llmperf_published.reading.vocabulary import COUNTS, SETTINGS, squeezed
from llmperf_published.types.document import Column, Figure, PublishedMemory, PublishedMetrics, TableRow

_EACH = re.compile(
    r"tok(?:en)?s?/(?:p|gpu|npu|xpu|card|device|卡)/s|tok(?:en)?s?/s(?:ec(?:ond)?)?/(?:p|gpu|npu|card|device)|/p/s|tgs"
    r"|单卡|per (?:device|gpu)|tps/(?:gpu|card|device)|(?<![a-z])t/s/(?:gpu|card|device)"
)
_ALL = re.compile(r"tok(?:en)?s?/s|tokens? per second|(?<![a-z])t/s(?![a-z])")
CONTEXT = SETTINGS.union(
    ["configuration", "config_name", "parallel", "fix_hp", "model", "device", "remark", "task", "framework", *COUNTS]
)
"""Columns that are read elsewhere: they hold no figures."""


@dataclass
class Figures:
    """What a row's cells give, and what in them was not understood."""

    each: Figure | None = None
    """Throughput of one device."""
    whole: Figure | None = None
    """Throughput of all devices."""
    uncertain: Figure | None = None
    """Throughput of which it is not said what it counts."""
    loss: Figure | None = None
    mfu: Figure | None = None
    hfu: Figure | None = None
    memory: PublishedMemory | None = None
    aligned: bool | None = None
    evaluation: dict[str, Figure] = field(default_factory=dict)
    other: dict[str, Figure] = field(default_factory=dict)
    problems: list[tuple[str, str]] = field(default_factory=list)
    """Text and what was expected in its place."""

    @property
    def throughput(self) -> Figure | None:
        """That of one device where it is known."""
        return self.each or self.whole or self.uncertain


def figures(columns: Sequence[Column], row: TableRow, told: Contents, devices: int | None) -> Figures:
    """Read every cell that holds a figure."""
    found = Figures()
    for column, header, name, text in _cells(columns, row):
        if name == "aligned":
            said = _without_remark(text)
            found.aligned = truth(said)
            if found.aligned is None and not withheld(said):
                found.problems.append((text, f"expected true or false under {header!r}"))
        elif name == "memory":
            found.memory = memory(text, _memory_unit(header, told))
            if found.memory is None:
                found.problems.append((text, f"expected an amount of memory under {header!r}"))
        elif name not in CONTEXT:
            one, problem = read_figure(column, text)
            if one is None:
                found.problems.append((text, problem))
            else:
                _enter_number(found, header, name, one, told, devices)
    return found


def _without_remark(text: str) -> str:
    """`True (the baseline)` and `/, for reference only` without what is in brackets or behind the comma."""
    return re.sub(r"[(,].*", "", normal(text))


def _cells(columns: Sequence[Column], row: TableRow) -> Iterator[tuple[Column, str, str | None, str]]:
    """Column, plain header, meaning and plain text of each cell that there is."""
    for column, cell in zip(columns, row.cells, strict=False):
        yield column, plain(column.header), column.name, plain(cell)


def _enter_number(
    found: Figures, header: str, name: str | None, one: Figure, told: Contents, devices: int | None
) -> None:
    if one.expression is not None and one.computed is None:
        found.problems.append((one.text, f"expected a sum of numbers under {header!r}"))
    if name == "throughput":
        _enter_throughput(found, header, one, told, devices)
    elif name in ("loss", "mfu", "hfu"):
        setattr(found, name, one)
    elif name == "evaluation" or one.value is not None:
        into = found.evaluation if name == "evaluation" else found.other
        into[header if header not in into else f"{header} ({len(into) + 1})"] = one


def _enter_throughput(found: Figures, header: str, one: Figure, told: Contents, devices: int | None) -> None:
    per_device = _per_device(one, header, told, devices)
    if one.value is None:
        found.each = found.each or one
    elif per_device is None:
        found.uncertain = one
        unit = f"expected a unit such as token/p/s under {header!r} to know what it counts"
        found.problems.append((one.text, unit))
    elif (found.each if per_device else found.whole) is not None:
        found.other[header] = one
    elif per_device:
        found.each = one
    else:
        found.whole = one


def _per_device(one: Figure, header: str, told: Contents, devices: int | None) -> bool | None:
    """Whether a throughput is that of one device: by the sum it comes from, its unit, its header, the explanation."""
    divisor = re.search(r"/\s*(\d+)\s*$", one.expression or "")
    if divisor and devices is not None and int(divisor[1]) == devices:
        return True
    if counts_samples(one.unit or header):
        return None
    for text in (one.unit or "", header, *_explanations(told)):
        words = normal(text).lower()
        if _EACH.search(squeezed(words)) or _EACH.search(words):
            return True
        if _ALL.search(words):
            return False
    return None


def _explanations(told: Contents) -> Iterator[str]:
    for entry in told.entries("general", "throughput"):
        yield from (entry.text, entry.remark)


def _memory_unit(header: str, told: Contents) -> str | None:
    explained = (text for entry in told.entries("general", "memory") for text in (entry.text, entry.remark))
    return next((unit for text in (header, *explained) if (unit := unit_in(text))), None)


def metrics(found: Figures) -> PublishedMetrics:
    """The figures by their fields; a throughput of unknown kind stands among the others."""
    other = dict(found.other)
    if found.uncertain is not None:
        other["throughput"] = found.uncertain
    return PublishedMetrics(
        tokens_per_second_per_device=found.each,
        tokens_per_second=found.whole,
        loss=found.loss,
        mfu=found.mfu,
        hfu=found.hfu,
        memory=found.memory,
        aligned=found.aligned,
        evaluation=found.evaluation,
        other=other,
    )
