"""Units of figures: whether a cell's fits its column, and whether a share without one is percent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from llmperf_published.reading.cell_text import normal, plain
from llmperf_published.reading.numbers import figure
from llmperf_published.reading.vocabulary import squeezed
from llmperf_published.types.document import Column, Figure

SHARES = ("mfu", "hfu")
"""Columns of shares, which are printed as percent or as shares of 1."""
MOST_OF_A_SHARE = 2.0
"""No share is more, not even one that was computed with half of the right peak; so the figures are percent."""

_KINDS = {
    "tokens a second": r".*(?:tok|词元).*|t/s(?:/.*)?",
    "samples or steps a second": r"(?:samples?|seqs?|sequences?|sentences?|imgs?|images?|docs?|steps?|its?|iters?"
    r"|iterations?|样本|句|条|步)/.*",
    "time": r"(?:ms|us|µs|μs|s|secs?|seconds?|mins?|minutes?|h|hours?|毫秒|微秒|秒|分钟|小时)(?:/.*)?",
    "FLOP/s": r"[kmgtpe]?flops?(?:/.*)?",
    "percent": r"%",
    "memory": r"(?:[kmgt]i?b|bytes?)(?:/.*)?",
    "power": r"(?:k|m)?w(?:atts?)?",
}
_FITTING = {"throughput": ("tokens a second", "samples or steps a second"), "loss": (), "mfu": ("percent",),
            "hfu": ("percent",)}  # fmt: skip
"""Kinds of unit that a column's figures may have; columns that are not here may have any."""


def read_figure(column: Column, text: str) -> tuple[Figure | None, str]:
    """A cell's plain text as the figure of its column; None, and what was expected, where it is not one."""
    header, name = plain(column.header), column.name
    one = figure(text, header)
    if one is None or (name is None and one.expression and one.printed is None):
        return None, f"expected {'a number' if name else 'a number, in a column that is not known,'} under {header!r}"
    if name == "loss" and one.expression is not None and one.printed is None:
        return None, f"expected one number under {header!r}, found {one.expression}"
    if (odd := _odd_unit(column, one)) is not None:
        return None, f"expected {odd} under {header!r}, found {one.unit}"
    if name not in SHARES or one.value is None or one.unit is not None or one.expression is not None:
        return one, ""
    return _share(column, text, one.value)


def _share(column: Column, text: str, value: float) -> tuple[Figure | None, str]:
    """A share without a unit, as its whole column is read; None where it may be one thing or the other."""
    header, percent = plain(column.header), column.unit == "percent"
    if percent and 0 < value <= 1:
        return None, f"expected percent under {header!r}, as in other rows, or its sign: {value:g} may be a share of 1"
    if not percent and value > 1:
        return None, f"expected percent, or a share of 1, under {header!r}: {value:g} may be either"
    return figure(text, f"{header} (%)" if percent else header), ""


def _odd_unit(column: Column, one: Figure) -> str | None:
    """What a unit should have been; None where it fits, is not known, or there is none."""
    kind = _kind(one.unit or "")
    if kind is None or column.name not in _FITTING:
        return None
    fitting = _FITTING[column.name]
    if "tokens a second" in fitting and _counts_tokens(column.header):
        fitting = fitting[:1]
    return None if kind in fitting else " or ".join(fitting) or "a number without a unit"


def _kind(unit: str) -> str | None:
    words = re.sub(r"\s+", "", normal(unit)).lower().replace("per", "/").strip("()")
    return next((kind for kind, pattern in _KINDS.items() if re.fullmatch(pattern, words)), None)


def counts_samples(text: str) -> bool:
    """Whether a unit, or a header with one, is of samples or steps a second: `samples/s`, `Throughput (seq/s)`."""
    words = re.findall(r"[\w/]+/[\w/]+", squeezed(text))
    return any(_kind(word) == "samples or steps a second" for word in words)


def _counts_tokens(header: str) -> bool:
    return re.search(r"tok|tgs|tps|(?<![a-z])t/s", squeezed(header)) is not None


def with_units(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> tuple[Column, ...]:
    """Columns of shares as percent where their figures without a unit can be nothing else."""
    return tuple(
        replace(column, unit="percent") if max(_bare_shares(column, index, rows), default=0.0) > MOST_OF_A_SHARE
        else column
        for index, column in enumerate(columns)
    )  # fmt: skip


def _bare_shares(column: Column, index: int, rows: Sequence[Sequence[str]]) -> Iterator[float]:
    """The figures of a column of shares for which neither header nor cell prints a unit."""
    if column.name in SHARES:
        for cells in rows:
            one = figure(plain(cells[index]), plain(column.header)) if index < len(cells) else None
            if one is not None and one.value is not None and one.unit is None and one.expression is None:
                yield one.value
