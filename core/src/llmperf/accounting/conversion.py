"""A published MFU, throughput or FLOP/s in another convention and of another peak."""

from __future__ import annotations

from dataclasses import dataclass

from llmperf.accounting.conventions import Convention, titled
from llmperf.accounting.counting import flops_by
from llmperf.types.flops import Workload
from llmperf.types.models import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """A figure in one convention, with how it was computed."""

    convention: str
    """Convention of MFU and FLOP/s."""
    title: str
    """Its name, and the programs that count in this way."""
    flops_per_token: float
    """FLOPs per token by this convention."""
    formula: str
    """Formula of the FLOPs per token, with the figures filled in."""
    tokens_per_second_per_device: float
    """The same in every convention."""
    flops_per_second_per_device: float
    """Tokens per second times FLOPs per token."""
    mfu: float | None
    """A share; None without a peak."""
    how: str
    """The formula of the MFU, or of the FLOP/s without a peak, with the figures filled in."""


def tokens_of(flops_per_second: float, convention: Convention, model: Model, workload: Workload) -> float:
    """Tokens per second of a device that computes so many FLOP/s by a convention."""
    return flops_per_second / flops_by(convention, model, workload).flops


def converted(
    tokens_per_second: float, convention: Convention, model: Model, workload: Workload, peak: float | None
) -> Converted:
    """A throughput of one device, expressed by a convention; `peak` in FLOP/s is that of the MFU."""
    counted = flops_by(convention, model, workload)
    rate = tokens_per_second * counted.flops
    each = f"{tokens_per_second:,.6g} token/s x {counted.flops / 1e9:.6g} GFLOP"
    how = f"{each} = {rate / 1e12:.4g} TFLOP/s"
    if peak is not None:
        how = f"{each} / {peak / 1e12:,.6g} TFLOP/s = {100 * rate / peak:.2f} %"
    return Converted(
        convention=convention.name,
        title=titled(convention),
        flops_per_token=counted.flops,
        formula=counted.formula,
        tokens_per_second_per_device=tokens_per_second,
        flops_per_second_per_device=rate,
        mfu=None if peak is None else rate / peak,
        how=how,
    )
