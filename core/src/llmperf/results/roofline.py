"""The place of a run on the roofline of its devices, and the fastest matrix product that was measured there.

Williams, Waterman, Patterson 2009: attainable FLOP/s = min(compute, FLOPs per byte x memory bandwidth).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmperf.accounting.precisions import products_dtype
from llmperf.types.roofline import MeasuredPeak, Roofline

if TYPE_CHECKING:
    from llmperf.types.plan import Plan


def measured_peak(plan: Plan) -> MeasuredPeak | None:
    """The measured peak of one rank's share of a device in the run's precision; None without a measurement."""
    rates, dtype = plan.rates, products_dtype(plan.spec.contract)
    if rates is None or rates.basis != "measured" or dtype not in rates.matmul_flops_per_second:
        return None
    return MeasuredPeak(
        flops_per_second=rates.matmul_flops_per_second[dtype] * plan.device_share,
        dtype=dtype,
        source=rates.source,
        date=rates.date,
        conditions=rates.conditions,
    )


def roofline(plan: Plan, step_seconds: float | None) -> Roofline | None:
    """Place of the rank with the most FLOPs, by the expected work; `step_seconds`: the median step, if known.

    None without an expectation, and for a model whose FLOPs an extension counts: formulas may not hold for it.
    """
    from llmperf.planning.checks import expected_work

    stages = expected_work(plan) if plan.flops.counted_by == "core" else ()
    if not stages:
        return None
    work = max(stages, key=lambda stage: stage.flops)
    flops, moved = work.flops, work.bytes
    rates, share = plan.rates, plan.device_share
    compute = None if rates is None else rates.matmul_flops_per_second.get(products_dtype(plan.spec.contract))
    known = rates if compute else None
    compute, memory = (compute * share, known.memory_bytes_per_second * share) if compute and known else (None, None)
    return Roofline(
        rank=work.rank,
        method=work.method,
        flops_per_step=flops,
        bytes_per_step=moved,
        rates_basis=None if known is None else known.basis,
        rates_source=None if known is None else known.source,
        rates_date=None if known is None else known.date,
        compute_flops_per_second=compute,
        memory_bytes_per_second=memory,
        **placed(flops, moved, compute, memory, step_seconds),
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
