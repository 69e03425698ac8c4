"""Values as text: the one place that rounds figures. An unknown value is a dash, never 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from statistics import median
from typing import Any, TypeAlias

from llmperf.accounting.rank_layout import layout_text
from llmperf.accounting.routing import routing_text
from llmperf.types import Change, Layout, Result, Rounding, Row, Text
from llmperf.types.flop_counts import Mfu, WeightedPeak
from llmperf.types.result import Failure

UNKNOWN = "-"
Value: TypeAlias = str | int | float | bool | None

THROUGHPUT = Rounding(style="decimals", digits=1)
LOSS = Rounding(style="decimals", digits=4)
STEP_SECONDS = Rounding(style="decimals", digits=4)
WINDOW_SECONDS = Rounding(style="decimals", digits=2)
WATTS = Rounding(style="decimals", digits=1)
WHOLE = Rounding(style="decimals", digits=0)
SIGNIFICANT = Rounding(style="significant", digits=4)
AMOUNT = Rounding(style="amount", digits=4)
"""Money, hours, days: `0.1252`, `28,490`."""
PERCENT = Rounding(style="percent", digits=1)
DEVICE_GIB = Rounding(style="decimals", digits=1, divisor=2**30)
RANK_GIB = Rounding(style="decimals", digits=2, divisor=2**30)

HUGE = 1e15
"""Numbers from here on are shown as powers of ten."""


def rounded(value: float | int | None, rounding: Rounding) -> str:
    """A number as text."""
    if value is None:
        return UNKNOWN
    scaled = value if rounding.divisor == 1 else value / rounding.divisor
    if abs(scaled) >= HUGE:
        return f"{scaled:.4g}"
    if rounding.style == "decimals":
        return f"{scaled:,.{rounding.digits}f}"
    if rounding.style == "amount" and abs(scaled) >= 10 ** (rounding.digits - 1):
        return f"{scaled:,.0f}"
    if rounding.style in ("significant", "amount"):
        return f"{scaled:.{rounding.digits}g}"
    share = 100 * scaled
    return f"{share:.{rounding.digits}f} %" if share >= 1 else f"{share:.3g} %"


def shown(row: Row) -> str:
    """The value of a row as every format shows it, not yet made harmless."""
    if row.text is not None:
        return row.text or UNKNOWN
    if row.rounding is None or isinstance(row.value, (str, bool)):
        return text(row.value)
    return rounded(row.value, row.rounding)


def labelled(
    key: str, label: str, value: Value, rounding: Rounding | None = None, unit: str = "", *, text: str | None = None,
    parts: Iterable[Row] = (), own_words: bool = False,
) -> Row:  # fmt: skip
    """A row; `key` is empty for text that only people read."""
    return Row(key=key, label=label, value=value, rounding=rounding, unit=unit, text=text, parts=tuple(parts),
               own_words=own_words)  # fmt: skip


def counted_by(mfu: Mfu) -> tuple[Row, ...]:
    """The extension that counted the FLOPs; no row for those of the core."""
    of = mfu.counted_by
    return () if of == "core" else (labelled("flops_counted_by", "FLOPs counted by", of, text=f"extension {of}"),)


def leaves(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows for programs: the parts of composed rows in their place."""
    for row in rows:
        if row.parts:
            yield from leaves(row.parts)
        else:
            yield row


def failure_text(failure: Failure) -> str:
    """The message of a failure after the type of its exception; exceptions of llmperf have complete messages."""
    kind = failure.exception
    if kind is None or kind.startswith("llmperf."):
        return failure.message
    return f"{kind}: {failure.message}" if failure.message else kind


def number(value: float | int | None, digits: int = 1) -> str:
    """A number with digit groups; decimals only for a float."""
    decimals = 0 if isinstance(value, int) else digits
    return rounded(value, Rounding(style="decimals", digits=decimals))


def counted(count: int, what: str) -> str:
    """`1 run`, `4 runs`."""
    return Text(f"{{}} {what}{'s' * (count != 1)}", f"{count:,}")


def significant(value: float | None) -> str:
    """A number with four significant digits, as a power of ten if it is large or small."""
    return rounded(value, SIGNIFICANT)


def money(value: float, currency: str) -> str:
    """`85,470 USD`."""
    return f"{rounded(value, AMOUNT)} {currency}"


def duration(seconds: float) -> str:
    """A duration as text, such as `42 s`, `3 min 10 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def percent(value: float | None) -> str:
    """A share in percent."""
    return rounded(value, PERCENT)


def shares(named: Mapping[str, float]) -> str:
    """`heat 25.0 %, power limit 50.0 %`."""
    return joined([f"{name} {percent(share)}" for name, share in named.items()])


def text(value: Any) -> str:
    """Any scalar with all of its digits."""
    if value is None or isinstance(value, str):
        return UNKNOWN if value is None else value
    return str(value).lower() if isinstance(value, bool) else str(value)


def joined(values: Sequence[str]) -> str:
    """Names separated by commas; a dash if there are none."""
    return ", ".join(values) or UNKNOWN


def fix_hp(changes: Sequence[Change]) -> str:
    """Changes from the case, as published tables write them: `seq_len=512 micro_batch=12`."""
    return settings((change.path, change.value) for change in changes) or "/"


def settings(named: Iterable[tuple[str, Any]]) -> str:
    """`seq_len=512 optimizer.warmup_steps=20`: the last part of each path, the last two where they are ambiguous."""
    parts = [(path.split("."), value) for path, value in named]
    ends = Counter(path[-1] for path, _ in parts)
    return " ".join(
        f"{'.'.join(path[-1 if ends[path[-1]] == 1 else -2 :])}={text(value) or '[]'}" for path, value in parts
    )


def layout(parallelism: Layout) -> str:
    """`TP1 x PP1 x DP8, sharding stage 3 over 8`."""
    degrees, stage = layout_text(parallelism), parallelism.sharding_stage
    return Text("{}, sharding stage {} over {}", degrees, stage, parallelism.sharding_degree) if stage else degrees


def part(share: float) -> str:
    """A share of a device as a fraction: `1/2`."""
    return str(Fraction(share).limit_denominator(1000))


def devices(nodes: int, each: int, model: str, share: float) -> str:
    """`1x2 AMD EPYC (1/2 each)`: nodes x ranks on each node, and the share of a device per rank unless it is 1."""
    return f"{nodes}x{each} {model}" + ("" if share == 1 else f" ({part(share)} each)")


def weighted_parts(peak: WeightedPeak) -> str:
    """Share and peak of each dtype, such as `fp8 83.4 % at 1.979e+15, bf16 16.6 % at 9.894e+14`."""
    return ", ".join(
        f"{part.dtype} {rounded(part.share, PERCENT)} at {significant(part.peak_flops_per_second)}"
        for part in peak.parts
    )


def routing_rows(result: Result) -> tuple[Row, ...]:
    """Routing of tokens; no row for a dense model."""
    if result.model.mixture is None:
        return ()
    return (labelled("routing", "routing", result.contract.routing, text=routing_text(result.contract)),)


def expert_rows(result: Result) -> Iterator[Row]:
    """The largest imbalance of a layer and where it is; none unless the framework counted tokens."""
    known = {load.layer: load.imbalance for load in result.expert_load if load.imbalance is not None}
    if not known:
        return
    layer = max(known, key=lambda place: known[place])
    idle = sum(count == 0 for load in result.expert_load for count in load.tokens)
    label = "expert load, most / mean"
    largest = labelled("expert_imbalance_largest", label, known[layer], SIGNIFICANT)
    middle = labelled("expert_imbalance_median", label, median(known.values()), SIGNIFICANT)
    parts = (
        largest,
        labelled("expert_imbalance_layer", "layer", layer),
        middle,
        labelled("idle_experts", "experts without tokens", idle),
    )
    values = shown(largest), layer, shown(middle), counted(len(known), "layer")
    text = Text("{} in layer {}, {} in the median of {}", *values)
    text = Text("{}; {} without tokens", text, counted(idle, "expert")) if idle else text
    yield labelled("expert_imbalance", label, largest.value, text=text, parts=parts)
