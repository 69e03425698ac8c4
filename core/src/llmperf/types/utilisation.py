"""MFU under one convention, by the peak of one dtype and by the work-weighted peak of several."""

from __future__ import annotations

from llmperf.types.devices import Confidence, Dtype
from llmperf.types.flops import ConventionName
from llmperf.types.frozen import dataclass
from llmperf.types.units import NonNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakPart:
    """The products of one dtype in a work-weighted peak."""

    dtype: Dtype
    """Dtype of the products."""
    share: NonNegative
    """Share of the FLOPs in matrix products that the convention counts."""
    peak_flops_per_second: NonNegative
    """Peak of one rank's share of a device, for this dtype."""
    peak_source: str
    """Publication or measurement of that peak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedPeak:
    """FLOP/s of a device that computes each product at the peak of its dtype: 1 / sum of share / peak."""

    flops_per_second: NonNegative
    """Peak of one rank's share of a device."""
    parts: tuple[PeakPart, ...]
    """One for each dtype; the shares add up to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mfu:
    """Model (or hardware) FLOPs utilisation under one convention."""

    convention: ConventionName
    """The convention, which determines the counted operations."""
    headline: bool
    """Published tables are compared with this convention."""
    flops_per_token: NonNegative
    """The numerator, FLOPs for one trained token."""
    formula: str
    """Formula with the figures filled in."""
    leaves_out: tuple[str, ...]
    """Terms that the device computes and this convention does not count."""
    counted_by: str = "core"
    """Name of the extension that counted the FLOPs, or `core`."""
    peak_flops_per_second: NonNegative | None
    """Peak of one rank's share of a device."""
    peak_dtype: str | None
    """Dtype the peak holds for."""
    peak_source: str | None
    """Publication or measurement of the peak."""
    peak_confidence: Confidence | None
    """Reliability of the peak; `low` if it is derived or from a secondary source."""
    peak_date: str | None
    """ISO date of that source, or of the measurement."""
    value: NonNegative | None
    """token/p/s x flops_per_token / peak; None without a peak or a throughput."""
    of_measured_peak: NonNegative | None = None
    """The same by `Result.measured_peak`; None without one."""
    weighted_peak: WeightedPeak | None = None
    """The peak of products in several dtypes together; None for products in one dtype, without peaks, and where an
    extension counted the FLOPs."""
    of_weighted_peak: NonNegative | None = None
    """The same as `value` by `weighted_peak`; None without one."""
