"""Model FLOPs utilisation: what was computed per second over what the device can compute at best."""

from __future__ import annotations

from llmperf.types import FlopCount, PeakFlops
from llmperf.types.result import Mfu

HEADLINE = "nominal"
"""The convention of the published tables."""


def utilisation(
    flops: FlopCount, tokens_per_second_per_device: float | None, peak: PeakFlops | None, share: float
) -> tuple[Mfu, ...]:
    """MFU under every convention: token/p/s x FLOPs per token / (peak x share).

    `share` is the part of one probed device that one rank has, `tokens_per_second_per_device` counts per
    rank. The value is None without a peak or a throughput: no default stands in for either. Chowdhery et al.
    2022, appendix B.
    """
    available = None if peak is None else peak.flops_per_second * share
    return tuple(
        Mfu(
            convention=entry.convention,
            headline=entry.convention == HEADLINE,
            flops_per_token=entry.flops,
            formula=entry.formula,
            leaves_out=entry.leaves_out,
            peak_flops_per_second=available,
            peak_dtype=None if peak is None else peak.dtype,
            peak_source=None if peak is None else peak.source,
            value=_value(entry.flops, tokens_per_second_per_device, available),
        )
        for entry in flops.per_token
    )


def _value(flops_per_token: float, throughput: float | None, available: float | None) -> float | None:
    if throughput is None or not available:
        return None
    return throughput * flops_per_token / available
