"""Cells of figures with their units: which unit fits a column, whether a bare share is percent, memory cells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from llmperf_published.reading.markdown import normal, plain, withheld
from llmperf_published.reading.numbers import NUMBER, figure, number, whole
from llmperf_published.reading.vocabulary import squeezed
from llmperf_published.types.document import Column, Figure, MemoryPart, PublishedMemory

SHARES = ("mfu", "hfu")
"""Columns of shares, printed as percent or as fractions of 1."""
MAX_SHARE = 2.0
"""A share above this is percent: even half of the right peak does not give more."""
MAX_MEMORY_PARTS = 1024
"""Terms of one memory cell."""

_UNIT_KINDS = {
    "tokens a second": r".*(?:tok|词元).*|t/s(?:/.*)?",
    "samples or steps a second": r"(?:samples?|seqs?|sequences?|sentences?|imgs?|images?|docs?|steps?|its?|iters?"
    r"|iterations?|样本|句|条|步)/.*",
    "time": r"(?:ms|us|µs|μs|s|secs?|seconds?|mins?|minutes?|h|hours?|毫秒|微秒|秒|分钟|小时)(?:/.*)?",
    "FLOP/s": r"[kmgtpe]?flops?(?:/.*)?",
    "percent": r"%",
    "memory": r"(?:[kmgt]i?b|bytes?)(?:/.*)?",
    "power": r"(?:k|m)?w(?:atts?)?",
    "a ratio": r"x|times|倍",
}
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


def read_figure(column: Column, text: str) -> tuple[Figure | None, str]:
    """A cell's plain text as the figure of its column; None and the expected form if it cannot be parsed."""
    header, name = plain(column.header), column.name
    value = figure(text, header)
    if value is None or (name is None and value.expression and None in (value.printed, value.computed)):
        return None, f"expected {'a number' if name else 'a number, in a column that is not known,'} under {header!r}"
    if name is None and value.unit and _unit_kind(value.unit) is None and _IDENTIFIER.fullmatch(text):
        return None, f"expected a number, in a column that is not known, under {header!r}"
    if name == "loss" and value.expression is not None and value.printed is None:
        return None, f"expected one number under {header!r}, found {value.expression}"
    if (expected := _expected_unit(column, value)) is not None:
        return None, f"expected {expected} under {header!r}, found {value.unit}"
    if name is None and value.ends is not None:
        return None, f"expected a number, in a column that is not known, under {header!r}"
    numbers = [end.value for end in value.numbers if end.value is not None]
    if name not in SHARES or not numbers or value.unit is not None or value.expression is not None:
        return value, ""
    results = [_share(column, text, end) for end in numbers]
    return next((result for result in results if result[0] is None), results[0])


def _share(column: Column, text: str, value: float) -> tuple[Figure | None, str]:
    """A share without a unit, read as its whole column is; None if it may be percent or a fraction."""
    header, percent = plain(column.header), column.unit == "percent"
    if percent and 0 < value <= 1:
        return None, f"expected percent under {header!r}, as in other rows, or its sign: {value:g} may be a share of 1"
    if not percent and value > 1:
        return None, f"expected percent, or a share of 1, under {header!r}: {value:g} may be either"
    return figure(text, f"{header} (%)" if percent else header), ""


def _expected_unit(column: Column, value: Figure) -> str | None:
    """The unit that the column accepts; None if the cell's unit fits, is unknown or is absent."""
    kind = _unit_kind(value.unit or "")
    if kind is None or column.name not in _ACCEPTED_UNITS:
        return None
    accepted = _ACCEPTED_UNITS[column.name]
    if column.name == "throughput" and re.search(r"tok|tgs|tps|(?<![a-z])t/s", squeezed(column.header)):
        accepted = accepted[:1]
    return None if kind in accepted else " or ".join(accepted) or "a number without a unit"


def _unit_kind(unit: str) -> str | None:
    words = re.sub(r"\s+", "", normal(unit)).lower().replace("per", "/").strip("()")
    return next((kind for kind, pattern in _UNIT_KINDS.items() if re.fullmatch(pattern, words)), None)


def counts_samples(text: str) -> bool:
    """Check whether a unit or a header counts samples or steps: `samples/s`, `Throughput (seq/s)`."""
    words = re.findall(r"[\w/]+/[\w/]+", squeezed(text))
    return any(_unit_kind(word) == "samples or steps a second" for word in words)


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
