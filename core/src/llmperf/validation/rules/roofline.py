"""The place of a run on the roofline."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.types import Result
from llmperf.types.documents import Violation
from llmperf.validation.violations import deviates, figure, rule


@rule("LP320", "error", "The roofline follows from its figures")
def roofline_follows(result: Result) -> Iterator[Violation]:
    """Intensity, ridge, bound, attainable and achieved FLOP/s are functions of FLOPs, bytes, rates and step time."""
    line = result.roofline
    if line is None:
        return
    compute, memory, intensity = line.compute_flops_per_second, line.memory_bytes_per_second, line.flops_per_byte
    steps = result.metrics.step_seconds
    attainable = None
    if compute is not None and memory is not None and intensity is not None:
        attainable = min(compute, intensity * memory)
    achieved, most = line.achieved_flops_per_second, line.attainable_flops_per_second
    expected = {
        "flops_per_byte": (line.flops_per_step / line.bytes_per_step if line.bytes_per_step else None, "FLOPs / bytes"),
        "ridge_flops_per_byte": (compute / memory if compute is not None and memory else None, "compute / memory"),
        "attainable_flops_per_second": (attainable, "the smaller of compute and FLOPs per byte x memory"),
        "achieved_flops_per_second": (
            line.flops_per_step / steps.median if steps is not None and steps.median else None,
            "FLOPs / metrics.step_seconds.median",
        ),
        "share_of_attainable": (achieved / most if achieved is not None and most else None, "achieved / attainable"),
    }
    for name, (value, because) in expected.items():
        stated = getattr(line, name)
        if value is None or stated is None:
            if value is not stated:
                found = f"expected {'null' if value is None else figure(value)}, found {figure(stated)}"
                yield f"/roofline/{name}", f"{found} ({because})"
            continue
        yield from deviates(f"/roofline/{name}", stated, value, because)
    ridge = line.ridge_flops_per_byte
    bound = None if ridge is None or intensity is None else "compute" if intensity >= ridge else "memory"
    if line.bound != bound:
        yield "/roofline/bound", f"expected {bound or 'null'} (intensity against ridge), found {line.bound or 'null'}"
