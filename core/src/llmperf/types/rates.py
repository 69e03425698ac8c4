"""Rates of computation and communication in practice: as a vendor assumes, or as `llmperf peak` measured them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import date as calendar_date
from typing import Literal

from llmperf.types.frozen import dataclass
from llmperf.types.tracing import Collective
from llmperf.types.units import Count, NonNegative, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulRate:
    """Achieved rate of one matrix product, outputs verified."""

    dtype: str
    """Dtype as in `PeakFlops.dtype`."""
    shape: tuple[Positive, ...]
    """Batch, rows, columns, inner size."""
    flops_per_second: NonNegative
    """Achieved; measured: the median of the repeats."""
    spread: NonNegative | None = None
    """Distance of the quartiles of the repeats / their median; None if it is not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveRate:
    """Achieved rate of one collective, outputs verified."""

    collective: Collective
    """The pattern."""
    bytes: Positive
    """Size of the summed or the gathered tensor on one rank."""
    ranks: Positive
    """Ranks that took part."""
    seconds: NonNegative
    """Median of the repeats, on the slowest rank."""
    bus_bytes_per_second: NonNegative
    """Bytes per second that each rank sends: bytes x (ranks - 1) / ranks / seconds, twice that for an all-reduce."""
    spread: NonNegative | None = None
    """Spread as in `MatmulRate`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRate:
    """Speed of communication among devices of one node, or of several: time = latency x steps + bytes / bandwidth."""

    scope: Literal["node", "cluster"]
    """Between devices of one node, or of different nodes."""
    bytes_per_second: NonNegative
    """Bus bandwidth of each device in one direction, achieved by large messages."""
    latency_seconds: NonNegative
    """Latency of one step of a collective."""
    source: str
    """Datasheet, or how it was measured; says so if it is assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRates:
    """Rates that one device achieves. Every figure is measured, or assumed and then `source` says from what."""

    device_model: str
    """Model of the device, as in `DeviceInfo.model`."""
    basis: Literal["measured", "assumed"]
    """`measured`: by `llmperf peak`; `assumed`: from datasheets and usual efficiencies."""
    matmul_flops_per_second: Mapping[str, NonNegative]
    """Large matrix products by dtype (`bf16`, `fp16`, `tf32`, `fp32`)."""
    attention_flops_per_second: Mapping[str, NonNegative]
    """Fused attention by dtype; of one kernel by its name and dtype, such as `cudnn bf16`."""
    memory_bytes_per_second: NonNegative
    """Device memory, read and written in long rows."""
    launch_seconds: NonNegative
    """Time from one kernel to the next, if the kernel does nothing."""
    memory_bytes: Positive | None
    """Memory of the whole device."""
    links: tuple[LinkRate, ...] = ()
    """To other devices; empty if not known."""
    matmuls: tuple[MatmulRate, ...] = ()
    """Single measured products, if any."""
    collectives: tuple[CollectiveRate, ...] = ()
    """Single measured collectives, if any."""
    memory_read_bytes_per_second: NonNegative | None = None
    """Device memory, only read; None if not known."""
    source: str
    """Datasheets, or the command that measured."""
    date: str
    """ISO date of the source or the measurement."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Conditions of a measurement: driver, torch, clocks, temperature."""
    overhead_bytes: Count | None = None
    """Memory of a process beside its tensors: context, libraries, fragmentation; None if not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPeak:
    """The fastest matrix product that was measured on the machine of a run, before the run."""

    flops_per_second: NonNegative
    """Peak of one rank's share of a device."""
    dtype: str
    """That of the run."""
    source: str
    """Source of the measurement."""
    date: str
    """ISO date of the measurement."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Conditions of the measurement, by name."""


LOWEST_RATE, HIGHEST_RATE = 1e3, 1e19
"""FLOP/s or bytes/s of one device: beyond any that is built, within what can be computed with."""
LONGEST_LATENCY = 1.0
"""Seconds."""
MOST_MEMORY = 2**50
"""Bytes of one device."""
LONGEST_TEXT = 2_000
"""Characters of a source."""


def wrong_rate(rates: DeviceRates) -> str | None:
    """The first figure that cannot be a rate: where, what was expected, what was found; None if all can."""
    speeds = {
        **{f"matmul_flops_per_second.{dtype}": rate for dtype, rate in rates.matmul_flops_per_second.items()},
        **{f"attention_flops_per_second.{dtype}": rate for dtype, rate in rates.attention_flops_per_second.items()},
        "memory_bytes_per_second": rates.memory_bytes_per_second,
        "memory_read_bytes_per_second": rates.memory_read_bytes_per_second,
        **{f"links.{place}.bytes_per_second": link.bytes_per_second for place, link in enumerate(rates.links)},
        **{f"matmuls.{place}.flops_per_second": rate.flops_per_second for place, rate in enumerate(rates.matmuls)},
    }
    for where, speed in speeds.items():
        if speed is not None and not LOWEST_RATE <= speed <= HIGHEST_RATE:
            return f"{where}: expected {LOWEST_RATE:g} to {HIGHEST_RATE:g}, found {speed:g}"
    links = {f"links.{place}.latency_seconds": link.latency_seconds for place, link in enumerate(rates.links)}
    for where, latency in {"launch_seconds": rates.launch_seconds, **links}.items():
        if not 0 <= latency <= LONGEST_LATENCY:
            return f"{where}: expected 0 to {LONGEST_LATENCY:g} s, found {latency:g}"
    for where, size in (("memory_bytes", rates.memory_bytes), ("overhead_bytes", rates.overhead_bytes)):
        if size is not None and not 0 <= size <= MOST_MEMORY:
            return f"{where}: expected 0 to {MOST_MEMORY:,} bytes, found {size:,}"
    for where, text in (("source", rates.source), ("device_model", rates.device_model)):
        if len(text) > LONGEST_TEXT:
            return f"{where}: expected at most {LONGEST_TEXT} characters, found {len(text)}"
    try:
        calendar_date.fromisoformat(rates.date)
    except ValueError:
        return f"date: expected a date such as 2026-01-31, found {rates.date[:40]!r}"
    return None
