"""The place of a run on the roofline of its devices: a section of results, its rows, and the rule over its figures.

Williams, Waterman, Patterson 2009: attainable FLOP/s = min(compute, FLOPs per byte x memory bandwidth).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from llmperf.accounting import products_dtype
from llmperf.types import ResultSection, Text
from llmperf.types.frozen import dataclass
from llmperf.types.units import Count, NonNegative
from llmperf.validation import deviates, figure, rule

if TYPE_CHECKING:
    from llmperf.types import Plan, Result, Row
    from llmperf.types.documents import Violation

BECAUSE = {
    "flops_per_byte": Text("FLOPs / bytes"),
    "ridge_flops_per_byte": Text("compute / memory"),
    "attainable_flops_per_second": Text("the smaller of compute and FLOPs per byte x memory"),
    "achieved_flops_per_second": "FLOPs / metrics.step_seconds.median",
    "share_of_attainable": Text("achieved / attainable"),
    "bound": Text("intensity against ridge"),
}
IMPOSSIBLE = {"compute_flops_per_second": (1e18, "FLOP/s"), "memory_bytes_per_second": (1e15, "bytes/s")}
"""Per device: a hundred times and more what the best devices of 2026 do, so that no new device is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Place of a step of one rank on the roofline of its device, by estimates of the FLOPs and bytes of operations."""

    rank: Count
    """The first rank of the pipeline stage with the most FLOPs."""
    method: Literal["fake tensors", "analytic"]
    """Way in which FLOPs and bytes were counted."""
    flops_per_step: NonNegative
    """As computed, with recomputation and without the masked half of attention where a kernel leaves it out."""
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


def roofline(plan: Plan, step_seconds: float | None) -> Roofline | None:
    """Place of the rank with the most FLOPs, by the expected work, if it is known by the core's formulas."""
    from llmperf import expected_work

    stages = expected_work(plan) if plan.flops.counted_by == "core" else ()
    if not stages:
        return None
    work = max(stages, key=lambda stage: stage.flops)
    rates, compute, memory = plan.rates, None, None
    dtype = products_dtype(plan.spec.contract)
    if rates is not None and rates.matmul_flops_per_second.get(dtype):
        compute = rates.matmul_flops_per_second[dtype] * plan.device_share
        memory = rates.memory_bytes_per_second * plan.device_share
    else:
        rates = None
    return Roofline(
        rank=work.rank,
        method=work.method,
        flops_per_step=work.flops,
        bytes_per_step=work.bytes,
        rates_basis=None if rates is None else rates.basis,
        rates_source=None if rates is None else rates.source,
        rates_date=None if rates is None else rates.date,
        compute_flops_per_second=compute,
        memory_bytes_per_second=memory,
        **placed(work.flops, work.bytes, compute, memory, step_seconds),
    )


def placed(
    flops: float, moved: float, compute: float | None, memory: float | None, seconds: float | None
) -> dict[str, Any]:
    """The figures of a roofline that follow from the work of a step, the rates of the device and the step's time."""
    intensity = flops / moved if moved else None
    ridge = compute / memory if compute is not None and memory else None
    attainable = None
    if compute is not None and memory is not None and intensity is not None:
        attainable = min(compute, intensity * memory)
    achieved = flops / seconds if seconds else None
    return {
        "flops_per_byte": intensity,
        "ridge_flops_per_byte": ridge,
        "bound": None if ridge is None or intensity is None else "compute" if intensity >= ridge else "memory",
        "attainable_flops_per_second": attainable,
        "achieved_flops_per_second": achieved,
        "share_of_attainable": achieved / attainable if achieved is not None and attainable else None,
    }


def _of_result(plan: Plan, result: Result, _: Path) -> Roofline | None:
    steps = result.metrics.step_seconds
    return roofline(plan, steps.median) if result.status == "complete" and steps is not None else None


def _rows(line: Roofline, _: Result) -> Iterator[Row]:
    from llmperf.reporting import PERCENT, SIGNIFICANT, shown
    from llmperf.types import Row

    intensity, ridge, attained = (
        Row(key=name, label="roofline", value=getattr(line, name), rounding=rounding)
        for name, rounding in (
            ("flops_per_byte", SIGNIFICANT), ("ridge_flops_per_byte", SIGNIFICANT), ("share_of_attainable", PERCENT)
        )
    )  # fmt: skip
    place = Text("no rates of the device, so its ridge is unknown")
    if line.bound is not None:
        values = shown(ridge), line.bound, shown(attained), line.rates_basis, line.rates_date
        place = Text("ridge at {}: {} bound, {} of attainable FLOP/s ({} rates, {})", *values)
    yield Row(
        key="flops_per_byte",
        label="roofline",
        value=line.flops_per_byte,
        rounding=SIGNIFICANT,
        text=Text("{} FLOPs a byte ({}); {}", shown(intensity), Text(line.method), place),
        parts=(intensity, ridge, Row(key="bound", label="roofline", value=line.bound), attained),
        own_words=True,
    )


SECTION = ResultSection(name="roofline", figures=Roofline, compute=_of_result, rows=_rows)


@rule("LP320", "error", "The roofline follows from its figures, and is possible")
def roofline_follows(result: Result) -> Iterator[Violation]:
    """Intensity, ridge, bound, attainable and achieved FLOP/s are functions of FLOPs, bytes, rates and step time."""
    line: Roofline | None = SECTION.of(result)
    if line is None:
        return
    compute, memory, steps = line.compute_flops_per_second, line.memory_bytes_per_second, result.metrics.step_seconds
    seconds = None if steps is None else steps.median
    for name, value in placed(line.flops_per_step, line.bytes_per_step, compute, memory, seconds).items():
        path, stated, because = f"/sections/roofline/{name}", getattr(line, name), BECAUSE[name]
        if isinstance(value, float) and isinstance(stated, float):
            yield from deviates(path, stated, value, because)
        elif value != stated:
            expected, found = (one or "null" if name == "bound" else figure(one) for one in (value, stated))
            yield path, Text("expected {} ({}), found {}", expected, because, found)
    peak = next((mfu.peak_flops_per_second for mfu in result.mfu if mfu.peak_flops_per_second), None)
    if peak is not None and (line.achieved_flops_per_second or 0) > peak:
        found = figure(line.achieved_flops_per_second)
        yield (
            "/sections/roofline/achieved_flops_per_second",
            Text("expected at most {} (the peak), found {}", figure(peak), found),
        )
    for name, (most, unit) in IMPOSSIBLE.items():
        rate = getattr(line, name)
        if rate is not None and rate > most:
            expected = Text("expected at most {:g} {}, which no device reaches", most, unit)
            yield f"/sections/roofline/{name}", Text("{}, found {}", expected, figure(rate))
