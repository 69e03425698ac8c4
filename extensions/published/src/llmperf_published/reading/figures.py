"""The figures of one row: throughput, loss, MFU, memory, evaluations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from llmperf_published.reading.cells import counts_samples, memory, read_figure
from llmperf_published.reading.markdown import normal, plain, withheld
from llmperf_published.reading.sections import Contents
from llmperf_published.reading.settings import truth
from llmperf_published.reading.vocabulary import COUNTS, SETTINGS, squeezed
from llmperf_published.types.document import Column, Figure, PublishedMemory, PublishedMetrics, TableRow

NOT_FIGURES = SETTINGS.union(
    ["configuration", "config_name", "parallel", "fix_hp", "model", "device", "remark", "task", "framework", *COUNTS]
)
"""Columns that hold no figures; other modules read them."""

_PER_DEVICE = re.compile(
    r"tok(?:en)?s?/(?:p|gpu|npu|xpu|card|device|卡)/s|tok(?:en)?s?/s(?:ec(?:ond)?)?/(?:p|gpu|npu|card|device)|/p/s|tgs"
    r"|单卡|per (?:device|gpu)|tps/(?:gpu|card|device)|(?<![a-z])t/s/(?:gpu|card|device)"
)
_IN_ALL = re.compile(r"tok(?:en)?s?/s|tokens? per second|(?<![a-z])t/s(?![a-z])")


@dataclass
class Figures:
    """The figures of a row's cells, and the cells that could not be parsed."""

    each: Figure | None = None
    """Throughput of one device."""
    whole: Figure | None = None
    """Throughput of all devices."""
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
        """Throughput of one device if known, otherwise of all, otherwise the uncertain one."""
        return self.each or self.whole or self.uncertain

    def metrics(self) -> PublishedMetrics:
        """The figures as the document holds them; an uncertain throughput is among the others."""
        uncertain = {} if self.uncertain is None else {"throughput": self.uncertain}
        return PublishedMetrics(
            tokens_per_second_per_device=self.each,
            tokens_per_second=self.whole,
            loss=self.loss,
            mfu=self.mfu,
            hfu=self.hfu,
            memory=self.memory,
            aligned=self.aligned,
            evaluation=self.evaluation,
            other={**self.other, **uncertain},
        )


def figures(columns: Sequence[Column], row: TableRow, contents: Contents, devices: int | None) -> Figures:
    """The figures of a row that was measured on `devices` accelerators."""
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
            if value is None:
                result.problems.append((text, problem))
            else:
                _enter(result, column.name, header, value, contents, devices)
    return result


def _enter(
    result: Figures, name: str | None, header: str, value: Figure, contents: Contents, devices: int | None
) -> None:
    if value.expression is not None and value.computed is None:
        result.problems.append((value.text, f"expected a sum of numbers under {header!r}"))
    if name == "throughput":
        _enter_throughput(result, header, value, contents, devices)
    elif name in ("loss", "mfu", "hfu"):
        setattr(result, name, value)
    elif name == "evaluation" or value.value is not None:
        into = result.evaluation if name == "evaluation" else result.other
        into[header if header not in into else f"{header} ({len(into) + 1})"] = value


def _enter_throughput(result: Figures, header: str, value: Figure, contents: Contents, devices: int | None) -> None:
    per_device = _is_per_device(value, header, contents, devices)
    if value.value is None:
        result.each = result.each or value
    elif per_device is None:
        result.uncertain = value
        expected = f"expected a unit such as token/p/s under {header!r} to know what it counts"
        result.problems.append((value.text, expected))
    elif (result.each if per_device else result.whole) is not None:
        result.other[header] = value
    elif per_device:
        result.each = value
    else:
        result.whole = value


def _is_per_device(value: Figure, header: str, contents: Contents, devices: int | None) -> bool | None:
    """Whether a throughput is that of one device, by its expression, its unit, its header, or the general table."""
    divisor = re.search(r"/\s*(\d+)\s*$", value.expression or "")
    if divisor and devices is not None and int(divisor[1]) == devices:
        return True
    if counts_samples(value.unit or header):
        return None
    for text in (value.unit or "", header, *_explanations(contents, "throughput")):
        words = normal(text).lower()
        if _PER_DEVICE.search(squeezed(words)) or _PER_DEVICE.search(words):
            return True
        if _IN_ALL.search(words):
            return False
    return None


def _explanations(contents: Contents, name: str) -> Iterator[str]:
    for entry in contents.entries("general", name):
        yield from (entry.text, entry.remark)


def _memory_unit(header: str, contents: Contents) -> str | None:
    """The unit of memory in the header or in the general table, such as GiB of `device memory, in GiB`."""
    for text in (header, *_explanations(contents, "memory")):
        if match := re.search(r"(?<![A-Za-z])([GMT]i?B)(?![A-Za-z])", normal(text), re.IGNORECASE):
            return match[1]
    return None
