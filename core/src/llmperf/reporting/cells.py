"""Figures and foreign text as they stand in a cell: unknown is a dash, never 0; text can do no harm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from llmperf.accounting.layout import layout_text
from llmperf.types import Change, Layout, Result
from llmperf.types.result import Failure
from llmperf.validation.reading import printable as escaped

UNKNOWN = "-"
MAX_CELL = 400
_MARKDOWN = {ord(char): f"\\{char}" for char in "\\|`*[]~"} | {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}


def printable(text: str, limit: int = MAX_CELL) -> str:
    """On one line, and without what moves a terminal's cursor or hides text; cut off after `limit` characters."""
    line = " ".join(text[: limit + 1].split())
    line = escaped(line)
    return line if len(line) <= limit else line[:limit] + "..."


def markdown(text: str, limit: int = MAX_CELL) -> str:
    """Foreign text inside Markdown: no cell, line, tag, link or code span begins or ends in it."""
    return printable(text, limit).translate(_MARKDOWN)


def said(failure: Failure) -> str:
    """What a failure says, after the exception's type; llmperf's own exceptions say it all themselves."""
    kind = failure.exception
    if kind is None or kind.startswith("llmperf."):
        return failure.message
    return f"{kind}: {failure.message}" if failure.message else kind


def number(value: float | int | None, digits: int = 1) -> str:
    """A figure with digit groups."""
    if value is None:
        return UNKNOWN
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def counted(count: int, what: str) -> str:
    """`1 run`, `4 runs`."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def significant(value: float | None) -> str:
    """A figure to four digits, as a power of ten where it is large or small."""
    return UNKNOWN if value is None else f"{value:.4g}"


def gib(count: int | None, digits: int = 1) -> str:
    """Bytes as GiB, without the unit."""
    return UNKNOWN if count is None else f"{count / 2**30:.{digits}f}"


def percent(value: float | None) -> str:
    """A share as percent; three digits where it is small."""
    if value is None:
        return UNKNOWN
    shown = 100 * value
    return f"{shown:.1f} %" if shown >= 1 else f"{shown:.3g} %"


def shares(named: Mapping[str, float]) -> str:
    """`heat 25.0 %, power limit 50.0 %`."""
    return joined([f"{name} {percent(share)}" for name, share in named.items()])


def text(value: Any) -> str:
    """Any scalar; None is unknown."""
    if value is None:
        return UNKNOWN
    return str(value).lower() if isinstance(value, bool) else str(value)


def joined(values: Sequence[str]) -> str:
    """Several names; none is a dash."""
    return ", ".join(values) or UNKNOWN


def fix_hp(changes: Sequence[Change]) -> str:
    """Every departure from the case, as the published tables write it: `seq_len=512 micro_batch=12`."""
    return settings((change.path, change.value) for change in changes) or "/"


def settings(named: Iterable[tuple[str, Any]]) -> str:
    """`seq_len=512 optimizer.warmup_steps=20`: the end of each path, with what is before it where two end alike."""
    parts = [(path.split("."), value) for path, value in named]
    ends = Counter(path[-1] for path, _ in parts)
    return " ".join(f"{'.'.join(path[-1 if ends[path[-1]] == 1 else -2 :])}={text(value)}" for path, value in parts)


def device_memory(result: Result) -> str:
    """Most in use on one whole device, over its total, GiB."""
    metrics = result.metrics
    return f"{gib(metrics.device_memory_used_bytes)}/{gib(metrics.device_memory_total_bytes)}"


def rank_peak(result: Result) -> int | None:
    """Most that any rank held."""
    known = [rank.peak_bytes for rank in result.metrics.rank_memory if rank.peak_bytes is not None]
    return max(known, default=None)


def layout(parallelism: Layout) -> str:
    """`TP1 x PP1 x DP8, sharding stage 3 over 8`."""
    one = parallelism
    degrees = layout_text(one)
    sharded = f", sharding stage {one.sharding_stage} over {one.sharding_degree}" if one.sharding_stage else ""
    return degrees + sharded


def part(share: float) -> str:
    """A share of a device as people say it: `1/2`."""
    return str(Fraction(share).limit_denominator(1000))


def devices(nodes: int, each: int, model: str, share: float) -> str:
    """`1x2 AMD EPYC (1/2 each)`: machines x ranks on each, and what a rank had of a device where not the whole."""
    return f"{nodes}x{each} {model}" + ("" if share == 1 else f" ({part(share)} each)")


def headline_mfu(result: Result) -> float | None:
    """MFU under the convention of the published tables."""
    return next((mfu.value for mfu in result.mfu if mfu.headline), None)
