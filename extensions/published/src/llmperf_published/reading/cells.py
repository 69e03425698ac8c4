"""The figures of a row's cells with their units: which unit fits a column, whether a bare share is percent, memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from llmperf_published.reading import vocabulary
from llmperf_published.reading.markdown import normal, plain, withheld
from llmperf_published.reading.numbers import NUMBER, figure, number, whole
from llmperf_published.reading.sections import SHARES, Contents
from llmperf_published.reading.settings import truth
from llmperf_published.types.document import Column, TableRow
from llmperf_published.types.row import Figure, MemoryPart, PublishedHardware, PublishedMemory, PublishedMetrics

MAX_MEMORY_PARTS = 1024
"""Terms of one memory cell."""
NOT_FIGURES = vocabulary.SETTINGS.union(
    ["configuration", "config_name", "parallel", "fix_hp", "model", "device", "machine", "remark", "task", "framework"],
    vocabulary.COUNTS,
    vocabulary.OTHER_DEGREES,
)
"""Columns that hold no figures; other modules read them."""

_SAMPLES = "samples or steps a second"
_ACCEPTED_UNITS = {"throughput": ("tokens a second", _SAMPLES), "loss": (), "mfu": ("percent",),
                   "hfu": ("percent",)}  # fmt: skip
"""Kinds of unit that a column accepts; columns that are not listed accept any."""
_MEMORY_UNIT = r"(?:[GMKT]i?B?|bytes)"
_MEMORY_PART = re.compile(
    rf"\s*({NUMBER})\s*({_MEMORY_UNIT})?(?:\s*[*x]\s*(\d{{1,6}}))?\s*({_MEMORY_UNIT})?\s*", re.IGNORECASE
)
_MEMORY_TOTAL = re.compile(rf"\s*({NUMBER})\s*({_MEMORY_UNIT})?\s*", re.IGNORECASE)
_IDENTIFIER = re.compile(r"\d+[a-z]{5,}", re.IGNORECASE)
"""The name of a run, `89ibnowv`, which begins with digits and is no number with a unit."""


def figures(
    columns: Sequence[Column], row: TableRow, contents: Contents, where: PublishedHardware
) -> tuple[PublishedMetrics, str | None, list[tuple[str, str]]]:
    """The figures of a row that was measured on the machine `where`; the expression of its throughput; its problems.

    Problems are pairs of text and what was expected in its place.
    """
    known: dict[str, Any] = {}
    throughputs: dict[str, Figure] = {}
    evaluation: dict[str, Figure] = {}
    other: dict[str, Figure] = {}
    problems: list[tuple[str, str]] = []
    for column, raw in zip(columns, row.cells, strict=False):
        header, text, name = plain(column.title), plain(raw), column.name
        if name == "aligned":
            statement = re.sub(r"[(,].*", "", normal(text))  # `True (the baseline)`, `/, for reference only`
            known[name] = truth(statement)
            if known[name] is None and not withheld(statement):
                problems.append((text, f"expected true or false under {header!r}"))
        elif name == "memory":
            units = (re.search(r"(?<![A-Za-z])([GMT]i?B)(?![A-Za-z])", normal(explained), re.IGNORECASE)
                     for explained in (header, *_explanations(contents, "memory")))  # fmt: skip
            known[name] = memory(text, next((unit[1] for unit in units if unit), None))
            if known[name] is None:
                problems.append((text, f"expected an amount of memory under {header!r}"))
        elif name not in NOT_FIGURES:
            value, problem = read_figure(column, text)
            if value is None:
                if name is not None:  # others are listed once for the table
                    problems.append((text, problem))
                continue
            if value.expression is not None and value.computed is None:
                problems.append((value.text, f"expected a sum of numbers under {header!r}"))
            if name == "throughput":
                problem = _enter_throughput(throughputs, other, header, value, contents, where)
                problems += [(value.text, problem)] * bool(problem)
            elif name in ("loss", *SHARES):
                known[name] = value
            elif name == "evaluation" or value.stated:
                into = evaluation if name == "evaluation" else other
                into[header if header not in into else f"{header} ({len(into) + 1})"] = value
    chief = next((throughputs[of] for of in ("device", "all", "throughput", "withheld") if of in throughputs), None)
    known["tokens_per_second_per_device"] = throughputs.get("device") or (
        chief if chief is throughputs.get("withheld") else None
    )
    if "throughput" in throughputs:
        other["throughput"] = throughputs["throughput"]
    metrics = PublishedMetrics(tokens_per_second=throughputs.get("all"), evaluation=evaluation, other=other, **known)
    return metrics, chief.expression if chief else None, problems


def _enter_throughput(
    throughputs: dict[str, Figure],
    other: dict[str, Figure],
    header: str,
    value: Figure,
    contents: Contents,
    where: PublishedHardware,
) -> str:
    """Add a throughput by what it counts: `device`, `all`, `throughput` if unknown, `withheld`. Returns the problem."""
    if not value.stated:
        throughputs.setdefault("withheld", value)
        return ""
    unit, column = vocabulary.throughput_words(value.unit or ""), vocabulary.throughput_words(header)
    divisor = re.search(r"/\s*(\d+)\s*$", value.expression or "")
    scopes: list[vocabulary.Scope | None] = [unit.scope, column.scope]
    if divisor and int(divisor[1]) == where.world_size:
        scopes = ["device"]
    elif _SAMPLES in map(_unit_kind, re.findall(r"[\w/]+/[\w/]+", vocabulary.squeezed(value.unit or header))):
        scopes = ["unclear"]
    elif unit.scope == "all" and column.scope and (column.scope == "unclear" or not column.rate):
        scopes = [column.scope]  # 3000 tokens/s below `per-GPU throughput`
    elif None not in scopes and "unclear" not in scopes and unit.scope != column.scope:
        return f"expected the unit of the column under {header!r}, found {value.unit}"
    scopes += [vocabulary.throughput_words(text, prose=True).scope for text in _explanations(contents, "throughput")]
    scope, devices = next(filter(None, scopes), None), where.devices_per_node
    if scope == "node" and devices and value.value and value.expression is None:
        # the printed digits are kept with a smaller scale
        value, scope = replace(value, value=value.value / devices, scale=value.scale / devices), "device"
    if scope in ("device", "all"):
        if throughputs.setdefault(scope, value) is value:
            return ""
        other[header] = value
        counted = "one device" if scope == "device" else "all devices"
        return f"expected one throughput of {counted}, found another under {header!r}"
    throughputs["throughput"] = value
    if scope == "node":
        return f"expected the devices of each node in the row, to divide the figure under {header!r}"
    return f"expected a unit such as token/p/s under {header!r} to know what it counts"


def _explanations(contents: Contents, name: str) -> Iterator[str]:
    for entry in contents.entries("general", name):
        yield from (entry.text, entry.remark)


def read_figure(column: Column, text: str) -> tuple[Figure | None, str]:
    """A cell's plain text as the figure of its column; None and the expected form if it cannot be parsed."""
    header, name = plain(column.title), column.name
    value = figure(text, header)
    expected = f"expected {'a number' if name else 'a number, in a column that is not known,'} under {header!r}"
    if value is None:
        return None, expected
    kind = _unit_kind(value.unit or "")
    if name is None:
        broken = bool(value.expression) and None in (value.printed, value.computed)
        identifier = bool(value.unit) and kind is None and _IDENTIFIER.fullmatch(text)
        return (None, expected) if broken or identifier else (value, "")
    if name == "loss" and value.expression is not None and value.printed is None:
        return None, f"expected one number under {header!r}, found {value.expression}"
    accepted = _ACCEPTED_UNITS.get(name)
    if accepted is not None and kind is not None:
        if name == "throughput" and re.search(r"tok|tgs|tps|(?<![a-z])t/s", vocabulary.squeezed(column.title)):
            accepted = accepted[:1]
        if kind not in accepted:
            units = " or ".join(accepted) or "a number without a unit"
            return None, f"expected {units} under {header!r}, found {value.unit}"
    share = value.value
    if name not in SHARES or share is None or value.unit is not None or value.expression is not None:
        return value, ""
    percent = column.unit == "percent"  # a share without a unit is read as its whole column is
    if percent and 0 < share <= 1:
        of_rows = f"expected percent under {header!r}, as in other rows, or its sign"
        return None, f"{of_rows}: {share:g} may be a share of 1"
    if not percent and share > 1:
        return None, f"expected percent, or a share of 1, under {header!r}: {share:g} may be either"
    return figure(text, f"{header} (%)" if percent else header), ""


def _unit_kind(unit: str) -> str | None:
    words = re.sub(r"\s+", "", normal(unit)).lower().replace("per", "/").strip("()")
    units = vocabulary.vocabulary("units")
    return next((kind for kind, pattern in units.items() if re.fullmatch(pattern, words)), None)


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
