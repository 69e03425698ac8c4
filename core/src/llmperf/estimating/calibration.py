"""What was fitted to published figures, and how far estimates were from them: `data/estimate_calibration.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from llmperf.files.json_files import convert
from llmperf.files.user_files import read_toml
from llmperf.types.estimate import ExpectedError
from llmperf.types.plan import Plan
from llmperf.types.units import Count, NonNegative

FILE = Path(__file__).parents[1] / "data" / "estimate_calibration.toml"

Method = Literal["fake tensors", "analytic"]
Efficiency = Annotated[float, msgspec.Meta(gt=0, le=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryErrors:
    """How far estimates of memory were from published figures."""

    median: NonNegative
    """Relative error, each row left out of the fit in turn."""
    within_tenth: Count
    """Rows with an error of at most 10 %."""
    rows: Count
    """Rows it is from."""
    source: str
    """The command that computed all errors, and what it was held against."""
    date: str
    """ISO date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputErrors:
    """How far estimates of throughput by one method were from published figures, and what rows there are."""

    median: NonNegative
    """Relative error, each row left out of the fit in turn."""
    rows: Count
    """Rows it is from."""
    families: tuple[str, ...]
    """Families of the rows' models, all of them dense."""
    precisions: tuple[str, ...]
    """Recipes."""
    device_errors: Mapping[str, tuple[float, ...]]
    """The relative error of each row, by the device model as vendors name it; below 0 where the estimate was slower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The content of the file."""

    fragmentation: NonNegative
    """Memory that an allocator holds beyond the peak of tensors, as a share of it."""
    fragmentation_source: str
    """What it was fitted to."""
    efficiency: Mapping[Method, Efficiency]
    """Speed of published runs as a share of what the roofline, the links and the schedule allow, by the method of the
    trace: formulas leave out small operations."""
    efficiency_source: str
    """What it was fitted to."""
    memory_error: MemoryErrors
    """Of estimates with it."""
    throughput_error: Mapping[Method, ThroughputErrors]
    """Of estimates with it, by the method of the trace."""


@cache
def calibration() -> Calibration:
    """The calibration of this version."""
    return convert(read_toml(FILE), Calibration, str(FILE))


def expected_error(plan: Plan, method: Method) -> ExpectedError:
    """How far estimates were from published figures, and what of this one no published throughput by its method has."""
    memory, throughput = calibration().memory_error, calibration().throughput_error[method]
    model, precision, device = plan.spec.model, plan.spec.contract.precision, plan.probe.devices[0].model
    outside = {
        "a mixture of experts": model.mixture is not None,
        f"family {model.family}": model.mixture is None and model.family not in throughput.families,
        precision: precision not in throughput.precisions,
        device: device not in throughput.device_errors,
    }
    names = (throughput.families, throughput.precisions, throughput.device_errors)
    families, precisions, devices = (", ".join(part) for part in names)
    return ExpectedError(
        memory=memory.median,
        memory_within_tenth=memory.within_tenth,
        memory_rows=memory.rows,
        throughput=throughput.median,
        throughput_rows=throughput.rows,
        device_throughput=throughput.device_errors.get(device, ()),
        method=method,
        rows=f"dense {families} in {precisions} on {devices}",
        outside=tuple(name for name, is_outside in outside.items() if is_outside),
        source=memory.source,
        date=memory.date,
    )
