"""The figures of a row's cells with their units: which unit fits a column, whether a bare share is percent, memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from llmperf_published.reading.markdown import normal, plain, withheld
from llmperf_published.reading.numbers import NUMBER, figure, number, whole
from llmperf_published.reading.settings import truth
from llmperf_published.reading.vocabulary import (
    COUNTS,
    OTHER_DEGREES,
    SETTINGS,
    Scope,
    squeezed,
    throughput_words,
    vocabulary,
)
from llmperf_published.types.document import Column, TableRow
from llmperf_published.types.row import Figure, MemoryPart, PublishedHardware, PublishedMemory, PublishedMetrics

if TYPE_CHECKING:
    from llmperf_published.reading.sections import Contents

SHARES = ("mfu", "hfu")
"""Columns of shares, printed as percent or as fractions of 1."""
MAX_SHARE = 2.0
"""A share above this is percent: even half of the right peak does not give more."""
MAX_MEMORY_PARTS = 1024
"""Terms of one memory cell."""
NOT_FIGURES = SETTINGS.union(
    ["configuration", "config_name", "parallel", "fix_hp", "model", "device", "machine", "remark", "task", "framework"],
    COUNTS,
    OTHER_DEGREES,
)
"""Columns that hold no figures; other modules read them."""

_ACCEPTED_UNITS = {"throughput": ("tokens a second", "samples or steps a second"), "loss": (), "mfu": ("percent",),
                   "hfu": ("percent",)}  # fmt: skip
"""Kinds of unit that a column accepts; columns that are not listed accept any."""
_MEMORY_UNIT = r"(?:[GMKT]i?B?|bytes)"
_MEMORY_PART = re.compile(
    rf"\s*({NUMBER})\s*({_MEMORY_UNIT})?(?:\s*[*x]\s*(\d{{1,6}}))?\s*({_MEMORY_UNIT})?\s*", re.IGNORECASE
)
_MEMORY_TOTAL = re.compile(rf"\s*({NUMBER})\s*({_MEMORY_UNIT})?\s*", re.IGNORECASE)
_IDENTIFIER = re.compile(r"\d+[a-z]{5,}", re.IGNORECASE)
"""The name of a run, `89ibnowv`, which begins with digits and is no number with a unit."""


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
        header, text, name = plain(column.header), plain(raw), column.name
        if name == "aligned":
            statement = re.sub(r"[(,].*", "", normal(text))  # `True (the baseline)`, `/, for reference only`
            result.aligned = truth(statement)
            if result.aligned is None and not withheld(statement):
                result.problems.append((text, f"expected true or false under {header!r}"))
        elif name == "memory":
            units = (re.search(r"(?<![A-Za-z])([GMT]i?B)(?![A-Za-z])", normal(explained), re.IGNORECASE)
                     for explained in (header, *_explanations(contents, "memory")))  # fmt: skip
            result.memory = memory(text, next((unit[1] for unit in units if unit), None))
            if result.memory is None:
                result.problems.append((text, f"expected an amount of memory under {header!r}"))
        elif name not in NOT_FIGURES:
            value, problem = read_figure(column, text)
            if value is None:
                if name is not None:  # others are listed once for the table
                    result.problems.append((text, problem))
                continue
            if value.expression is not None and value.computed is None:
                result.problems.append((value.text, f"expected a sum of numbers under {header!r}"))
            if name == "throughput":
                _enter_throughput(result, header, value, contents, where)
            elif name in ("loss", *SHARES):
                setattr(result, name, value)
            elif name == "evaluation" or value.stated:
                into = result.evaluation if name == "evaluation" else result.other
                into[header if header not in into else f"{header} ({len(into) + 1})"] = value
    return result


def _enter_throughput(
    result: Figures, header: str, value: Figure, contents: Contents, where: PublishedHardware
) -> None:
    if not value.stated:
        result.withheld = result.withheld or value
        return
    scope, problem = _scope(value, header, contents, where)
    if scope == "node" and where.devices_per_node and value.expression is None:
        value, scope = _of_one_device(value, where.devices_per_node), "device"
    if scope in ("device", "all"):
        field_name, counted = ("each", "one device") if scope == "device" else ("whole", "all devices")
        if getattr(result, field_name) is None:
            setattr(result, field_name, value)
        else:
            result.other[header] = value
            problem = f"expected one throughput of {counted}, found another under {header!r}"
    elif scope != "contradictory":
        result.uncertain = value
        if scope == "node":
            problem = f"expected the devices of each node in the row, to divide the figure under {header!r}"
        else:
            problem = f"expected a unit such as token/p/s under {header!r} to know what it counts"
    if problem:
        result.problems.append((value.text, problem))


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
    words = re.findall(r"[\w/]+/[\w/]+", squeezed(value.unit or header))
    if any(_unit_kind(word) == "samples or steps a second" for word in words):
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


def read_figure(column: Column, text: str) -> tuple[Figure | None, str]:
    """A cell's plain text as the figure of its column; None and the expected form if it cannot be parsed."""
    header, name = plain(column.header), column.name
    value = figure(text, header)
    expected = f"expected {'a number' if name else 'a number, in a column that is not known,'} under {header!r}"
    if value is None:
        return None, expected
    kind = _unit_kind(value.unit or "")
    if name is None:
        broken = bool(value.expression) and None in (value.printed, value.computed)
        identifier = bool(value.unit) and kind is None and _IDENTIFIER.fullmatch(text)
        return (None, expected) if broken or identifier or value.ends is not None else (value, "")
    if name == "loss" and value.expression is not None and value.printed is None:
        return None, f"expected one number under {header!r}, found {value.expression}"
    accepted = _ACCEPTED_UNITS.get(name)
    if accepted is not None and kind is not None:
        if name == "throughput" and re.search(r"tok|tgs|tps|(?<![a-z])t/s", squeezed(column.header)):
            accepted = accepted[:1]
        if kind not in accepted:
            units = " or ".join(accepted) or "a number without a unit"
            return None, f"expected {units} under {header!r}, found {value.unit}"
    numbers = [end.value for end in value.numbers if end.value is not None]
    if name not in SHARES or not numbers or value.unit is not None or value.expression is not None:
        return value, ""
    percent = column.unit == "percent"  # a share without a unit is read as its whole column is
    if percent and (small := next((share for share in numbers if 0 < share <= 1), None)) is not None:
        of_rows = f"expected percent under {header!r}, as in other rows, or its sign"
        return None, f"{of_rows}: {small:g} may be a share of 1"
    if not percent and (large := next((share for share in numbers if share > 1), None)) is not None:
        return None, f"expected percent, or a share of 1, under {header!r}: {large:g} may be either"
    return figure(text, f"{header} (%)" if percent else header), ""


def _unit_kind(unit: str) -> str | None:
    words = re.sub(r"\s+", "", normal(unit)).lower().replace("per", "/").strip("()")
    return next((kind for kind, pattern in vocabulary("units").items() if re.fullmatch(pattern, words)), None)


def with_units(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> tuple[Column, ...]:
    """The columns; those of shares are percent if one of their figures without a unit is above `MAX_SHARE`."""
    return tuple(
        replace(column, unit="percent") if max(_bare_shares(column, index, rows), default=0.0) > MAX_SHARE else column
        for index, column in enumerate(columns)
    )


def _bare_shares(column: Column, index: int, rows: Sequence[Sequence[str]]) -> Iterator[float]:
    """The figures of a column of shares for which neither header nor cell prints a unit."""
    if column.name in SHARES:
        for cells in rows:
            share = figure(plain(cells[index]), plain(column.header)) if index < len(cells) else None
            if share is not None and share.unit is None and share.expression is None:
                yield from (end.value for end in share.numbers if end.value is not None)


def memory(text: str, unit: str | None) -> PublishedMemory | None:
    """A memory cell: `32/40`, `70.09 * 8 GB`, `46.80*2 + 38.93*2 GB`; None if it cannot be parsed.

    `unit` is that of the document, for cells that print none.
    """
    if withheld(text):
        return PublishedMemory(text=text, used=(), total=None, unit=unit)
    words = re.sub(r"\s*[*†‡]+$", "", normal(text))  # marks of footnotes
    used_text, bar, total_text = words.partition("/")
    parts = [_MEMORY_PART.fullmatch(part) for part in used_text.split("+")[: MAX_MEMORY_PARTS + 1]]
    total_match = _MEMORY_TOTAL.fullmatch(total_text)
    if len(parts) > MAX_MEMORY_PARTS or (bar and total_match is None):
        return None
    used = []
    for part in parts:
        if part is None or (each := _memory_figure(part[0].strip(), part[1])) is None:
            return None
        used.append(MemoryPart(each=each, devices=whole(part[3]) if part[3] else None))
    total = _memory_figure(total_text.strip(), total_match[1]) if total_match else None
    units = [part[4] or part[2] for part in parts if part] + [total_match[2] if total_match else None]
    if len({printed[0].lower() for printed in units if printed}) > 1:
        return None
    return PublishedMemory(text=text, used=tuple(used), total=total, unit=next(filter(None, reversed(units)), unit))


def _memory_figure(text: str, digits: str) -> Figure | None:
    value = number(digits)
    return None if value is None or value < 0 else Figure(text=text, value=value, printed=digits.replace(",", ""))
