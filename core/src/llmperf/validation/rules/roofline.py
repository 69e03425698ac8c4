"""The place of a run on the roofline."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.results.roofline import placed
from llmperf.results.sections import known_sections
from llmperf.types import Result
from llmperf.types.documents import Violation
from llmperf.types.roofline import Roofline
from llmperf.validation.violations import deviates, figure, rule

BECAUSE = {
    "flops_per_byte": "FLOPs / bytes",
    "ridge_flops_per_byte": "compute / memory",
    "attainable_flops_per_second": "the smaller of compute and FLOPs per byte x memory",
    "achieved_flops_per_second": "FLOPs / metrics.step_seconds.median",
    "share_of_attainable": "achieved / attainable",
    "bound": "intensity against ridge",
}
IMPOSSIBLE = {"compute_flops_per_second": (1e18, "FLOP/s"), "memory_bytes_per_second": (1e15, "bytes/s")}
"""Per device: a hundred times and more what the best devices of 2026 do, so that no new device is refused."""


@rule("LP320", "error", "The roofline follows from its figures, and is possible")
def roofline_follows(result: Result) -> Iterator[Violation]:
    """Intensity, ridge, bound, attainable and achieved FLOP/s are functions of FLOPs, bytes, rates and step time."""
    known = known_sections().by_name.get("roofline")
    line: Roofline | None = None if known is None else known.section.of(result)
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
            yield path, f"expected {expected} ({because}), found {found}"
    peak = next((mfu.peak_flops_per_second for mfu in result.mfu if mfu.peak_flops_per_second), None)
    if peak is not None and (line.achieved_flops_per_second or 0) > peak:
        found = figure(line.achieved_flops_per_second)
        yield (
            "/sections/roofline/achieved_flops_per_second",
            f"expected at most {figure(peak)} (the peak), found {found}",
        )
    for name, (most, unit) in IMPOSSIBLE.items():
        rate = getattr(line, name)
        if rate is not None and rate > most:
            expected = f"expected at most {most:g} {unit}, which no device reaches"
            yield f"/sections/roofline/{name}", f"{expected}, found {figure(rate)}"
