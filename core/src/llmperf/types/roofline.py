"""Limits of a run: the measured peak of its machine, and its place on the roofline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from llmperf.types.frozen import dataclass
from llmperf.types.units import Count, NonNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPeak:
    """The fastest matrix product that `llmperf peak` measured on the machine of a run, before the run."""

    flops_per_second: NonNegative
    """Peak of one rank's share of a device."""
    dtype: str
    """Dtype of the run."""
    source: str
    """Source of the measurement."""
    date: str
    """ISO date of the measurement."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Conditions of the measurement, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Place of a step of one rank on the roofline of its device (Williams, Waterman, Patterson 2009).

    FLOPs and bytes are estimates. Bytes are those that operations read and write, each tensor once for each operation:
    what caches hold counts too.
    """

    rank: Count
    """The first rank of the pipeline stage with the most FLOPs."""
    method: Literal["fake tensors", "analytic"]
    """Method of counting FLOPs and bytes."""
    flops_per_step: NonNegative
    """FLOPs as computed, with recomputation and without the masked half of attention where a kernel leaves it out."""
    bytes_per_step: NonNegative
    """Read and written by all operations."""
    flops_per_byte: NonNegative | None
    """Arithmetic intensity: flops_per_step / bytes_per_step."""
    rates_basis: Literal["measured", "assumed"] | None
    """Origin of the rates below: measured on this machine, or assumed by the vendor; None without rates."""
    rates_source: str | None
    """Source of the rates."""
    rates_date: str | None
    """ISO date of that source."""
    compute_flops_per_second: NonNegative | None
    """Large matrix products on one rank's share of a device."""
    memory_bytes_per_second: NonNegative | None
    """Memory bandwidth of that share."""
    ridge_flops_per_byte: NonNegative | None
    """Intensity from which on compute limits: compute_flops_per_second / memory_bytes_per_second."""
    bound: Literal["compute", "memory"] | None
    """Limit of the step as a whole; single operations may be limited by the other."""
    attainable_flops_per_second: NonNegative | None
    """The smaller of compute and flops_per_byte x bandwidth."""
    achieved_flops_per_second: NonNegative | None
    """flops_per_step / median step time."""
    share_of_attainable: NonNegative | None
    """achieved / attainable."""
