"""Fits to published figures, and errors of estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

import msgspec
from llmperf import convert, read_toml
from llmperf.accounting import precision_recipe
from llmperf.types.flop_counts import DTYPE_BYTES, Precision
from llmperf.types.plan import Plan
from llmperf.types.units import Count, NonNegative

from llmperf_estimate.types import ExpectedError

FILE = Path(__file__).parent / "data" / "calibration.toml"
ERRORS_FILE = FILE.with_name("errors.toml")

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
    """How far estimates of throughput were from published rows of one kind."""

    method: Method
    """Method of the estimates."""
    fitted: bool
    """The rows are part of the fit, each left out of it in turn; otherwise nothing was fitted to them."""
    device: str
    """Device model as vendors name it."""
    family: str
    """Family of the rows' models."""
    mixture: bool
    """These are mixtures of experts."""
    precision: Precision
    """Recipe."""
    errors: tuple[float, ...]
    """Relative error of each row; below 0 where the estimate was slower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The content of the file."""

    fragmentation: NonNegative
    """Memory that an allocator holds beyond the peak of tensors, as a share of it."""
    fragmentation_source: str
    """Data of the fit."""
    efficiency: Mapping[Method, Efficiency]
    """Speed of published runs as a share of what the roofline, the links and the schedule allow, by the method of the
    trace: formulas leave out small operations."""
    efficiency_source: str
    """Data of the fit."""
    memory_error: MemoryErrors
    """Errors of estimates with it."""


@cache
def calibration() -> Calibration:
    """The calibration of this version."""
    return convert(read_toml(FILE), Calibration, str(FILE))


@cache
def throughput_errors() -> tuple[ThroughputErrors, ...]:
    """The errors of estimates against published throughput, by kind of row."""
    return tuple(convert(read_toml(ERRORS_FILE)["rows"], list[ThroughputErrors], str(ERRORS_FILE)))


FEWEST_ROWS = 4
"""With fewer rows on a device, rows on other devices say more about an error than its own."""


def expected_error(plan: Plan, method: Method) -> ExpectedError:
    """How far estimates were from published figures of the nearest kind, and what of this one no such row has.

    The nearest kind is by method, dense or mixture, and bytes of products: on this device, if it has four rows, else on
    all. Its largest error is at least that of any kind which is better known.
    """
    memory, model = calibration().memory_error, plan.spec.model
    precision, device, mixture = plan.spec.contract.precision, plan.probe.devices[0].model, model.mixture is not None
    all_rows = [row for row in throughput_errors() if row.method == method]
    alike = [
        row for row in all_rows if row.mixture == mixture and _bytes(row.precision) == _bytes(precision)
    ] or all_rows
    here = [row for row in alike if row.device == device]
    if sum(len(row.errors) for row in here) >= FEWEST_ROWS:
        nearest = within = here
    else:
        nearest, within = (alike if here else [row for row in alike if not row.fitted] or alike), alike
    sizes = [abs(error) for row in nearest for error in row.errors]
    outside = {
        "a mixture of experts": mixture and not any(row.mixture for row in all_rows),
        f"family {model.family}": not mixture and model.family not in {row.family for row in all_rows},
        precision: precision not in {row.precision for row in all_rows},
        device: device not in {row.device for row in all_rows},
    }
    return ExpectedError(
        memory=memory.median,
        memory_within_tenth=memory.within_tenth,
        memory_rows=memory.rows,
        throughput=median(sizes),
        throughput_largest=max(abs(error) for row in within for error in row.errors),
        throughput_rows=len(sizes),
        nearest=_described(nearest),
        device_throughput=tuple(error for row in all_rows if row.device == device for error in row.errors),
        method=method,
        rows=_described(all_rows),
        outside=tuple(name for name, is_outside in outside.items() if is_outside),
        source=memory.source,
        date=memory.date,
    )


def _bytes(precision: Precision) -> int:
    return DTYPE_BYTES[precision_recipe(precision).products]


def _described(rows: Sequence[ThroughputErrors]) -> str:
    """Such as `dense llama in bf16, fp16 on DEVICE`."""
    parts = []
    for mixture in sorted({row.mixture for row in rows}):
        families = sorted({row.family for row in rows if row.mixture == mixture})
        parts.append(f"{'mixture' if mixture else 'dense'} {', '.join(families)}")
    precisions, devices = sorted({row.precision for row in rows}), sorted({row.device for row in rows})
    return f"{' and '.join(parts)} in {', '.join(precisions)} on {', '.join(devices)}"
