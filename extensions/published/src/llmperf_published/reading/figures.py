"""The figures of one row: throughput, loss, MFU, memory, evaluations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from llmperf_published.reading.cells import counts_samples, memory, read_figure
from llmperf_published.reading.markdown import normal, plain, withheld
from llmperf_published.reading.sections import Contents
from llmperf_published.reading.settings import truth
from llmperf_published.reading.throughput_scope import Scope, throughput_words
from llmperf_published.reading.vocabulary import COUNTS, OTHER_DEGREES, SETTINGS
from llmperf_published.types.document import (
    Column,
    Figure,
    PublishedHardware,
    PublishedMemory,
    PublishedMetrics,
    TableRow,
)

NOT_FIGURES = SETTINGS.union(
    ["configuration", "config_name", "parallel", "fix_hp", "model", "device", "machine", "remark", "task", "framework"],
    COUNTS,
    OTHER_DEGREES,
)
"""Columns that hold no figures; other modules read them."""


@dataclass
class Figures:
    """The figures of a row's cells, and the cells that could not be parsed."""

    each: Figure | None = None
    """Throughput of one device."""
    whole: Figure | None = None
    """Throughput of all devices."""
    withheld: Figure | None = None
    """A cell of throughput without a value."""
    uncertain: Figure | None = None
    """Throughput whose cell and column do not state what it counts."""
    loss: Figure | None = None
    mfu: Figure | None = None
    hfu: Figure | None = None
    memory: PublishedMemory | None = None
    aligned: bool | None = None
    evaluation: dict[str, Figure] = field(default_factory=dict)
    other: dict[str, Figure] = field(default_factory=dict)
    problems: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of text and what was expected in its place."""

    @property
    def throughput(self) -> Figure | None:
        """Throughput of one device if known, otherwise of all, otherwise the uncertain or withheld one."""
        return self.each or self.whole or self.uncertain or self.withheld

    def metrics(self) -> PublishedMetrics:
        """The figures as the document holds them; an uncertain throughput is among the others."""
        uncertain = {} if self.uncertain is None else {"throughput": self.uncertain}
        return PublishedMetrics(
            tokens_per_second_per_device=self.withheld if self.throughput is self.withheld else self.each,
            tokens_per_second=self.whole,
            loss=self.loss,
            mfu=self.mfu,
            hfu=self.hfu,
            memory=self.memory,
            aligned=self.aligned,
            evaluation=self.evaluation,
            other={**self.other, **uncertain},
        )


def figures(columns: Sequence[Column], row: TableRow, contents: Contents, where: PublishedHardware) -> Figures:
    """The figures of a row that was measured on the machine `where`."""
    result = Figures()
    for column, raw in zip(columns, row.cells, strict=False):
        header, text = plain(column.header), plain(raw)
        if column.name == "aligned":
            statement = re.sub(r"[(,].*", "", normal(text))  # `True (the baseline)`, `/, for reference only`
            result.aligned = truth(statement)
            if result.aligned is None and not withheld(statement):
                result.problems.append((text, f"expected true or false under {header!r}"))
        elif column.name == "memory":
            result.memory = memory(text, _memory_unit(header, contents))
            if result.memory is None:
                result.problems.append((text, f"expected an amount of memory under {header!r}"))
        elif column.name not in NOT_FIGURES:
            value, problem = read_figure(column, text)
            if value is None and column.name is None:
                continue  # listed once for the table
            if value is None:
                result.problems.append((text, problem))
            else:
                _enter(result, column.name, header, value, contents, where)
    return result


def _enter(
    result: Figures, name: str | None, header: str, value: Figure, contents: Contents, where: PublishedHardware
) -> None:
    if value.expression is not None and value.computed is None:
        result.problems.append((value.text, f"expected a sum of numbers under {header!r}"))
    if name == "throughput":
        _enter_throughput(result, header, value, contents, where)
    elif name in ("loss", "mfu", "hfu"):
        setattr(result, name, value)
    elif name == "evaluation" or value.stated:
        into = result.evaluation if name == "evaluation" else result.other
        into[header if header not in into else f"{header} ({len(into) + 1})"] = value


def _enter_throughput(
    result: Figures, header: str, value: Figure, contents: Contents, where: PublishedHardware
) -> None:
    if not value.stated:
        result.withheld = result.withheld or value
        return
    scope, problem = _scope(value, header, contents, where)
    if problem:
        result.problems.append((value.text, problem))
    if scope == "node" and where.devices_per_node and value.expression is None:
        value, scope = _of_one_device(value, where.devices_per_node), "device"
    if scope == "contradictory":
        return
    if scope not in ("device", "all"):
        result.uncertain = value
        if not problem:
            expected = f"expected a unit such as token/p/s under {header!r} to know what it counts"
            if scope == "node":
                expected = f"expected the devices of each node in the row, to divide the figure under {header!r}"
            result.problems.append((value.text, expected))
    elif (result.each if scope == "device" else result.whole) is not None:
        result.other[header] = value
        counted = "one device" if scope == "device" else "all devices"
        result.problems.append((value.text, f"expected one throughput of {counted}, found another under {header!r}"))
    elif scope == "device":
        result.each = value
    else:
        result.whole = value


def _of_one_device(value: Figure, devices: int) -> Figure:
    """The throughput of one device of a node; its printed digits are kept with a smaller scale."""
    ends = value.ends and (
        replace(value.ends[0], value=value.ends[0].value / devices),
        replace(value.ends[1], value=value.ends[1].value / devices),
    )
    each = None if value.value is None else value.value / devices
    return replace(value, value=each, scale=value.scale / devices, ends=ends)


def _scope(
    value: Figure, header: str, contents: Contents, where: PublishedHardware
) -> tuple[Scope | Literal["contradictory"] | None, str]:
    """Scope of a throughput, by its expression, its unit and its header, or the general table; and a problem."""
    divisor = re.search(r"/\s*(\d+)\s*$", value.expression or "")
    devices = (where.nodes or 0) * (where.devices_per_node or 0) or where.devices
    if divisor and devices is not None and int(divisor[1]) == devices:
        return "device", ""
    if counts_samples(value.unit or header):
        return None, ""
    unit, column = throughput_words(value.unit or ""), throughput_words(header)
    if unit.scope and column.scope and unit.scope != column.scope and "unclear" not in (unit.scope, column.scope):
        if unit.scope == "all" and not column.rate:  # 3000 tokens/s below `per-GPU throughput`
            return column.scope, ""
        return "contradictory", f"expected the unit of the column under {header!r}, found {value.unit}"
    if unit.scope == "all" and column.scope == "unclear":
        return column.scope, ""
    general = (throughput_words(text, prose=True).scope for text in _explanations(contents, "throughput"))
    return next((scope for scope in (unit.scope, column.scope, *general) if scope), None), ""


def _explanations(contents: Contents, name: str) -> Iterator[str]:
    for entry in contents.entries("general", name):
        yield from (entry.text, entry.remark)


def _memory_unit(header: str, contents: Contents) -> str | None:
    """The unit of memory in the header or in the general table, such as GiB of `device memory, in GiB`."""
    for text in (header, *_explanations(contents, "memory")):
        if match := re.search(r"(?<![A-Za-z])([GMT]i?B)(?![A-Za-z])", normal(text), re.IGNORECASE):
            return match[1]
    return None
