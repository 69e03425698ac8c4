"""Repeats of one run, and the spread of their throughput."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmperf.results.statistics import quantile
from llmperf.types.layout import Layout
from llmperf.types.result import Result
from llmperf.types.units import NonNegative, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """token/p/s over several runs."""

    runs: Positive
    """Complete ones: others have no throughput."""
    median: NonNegative
    minimum: NonNegative
    maximum: NonNegative
    relative: NonNegative | None
    """(maximum - minimum) / median; None for one run, which has no spread."""


def throughputs(results: Sequence[Result]) -> list[float]:
    """token/p/s of each complete run that has one."""
    return [
        figure
        for result in results
        if result.status == "complete" and (figure := result.metrics.tokens_per_second_per_device) is not None
    ]


def spread(results: Sequence[Result]) -> Spread | None:
    """The spread over the complete runs; None if there is none."""
    ordered = sorted(throughputs(results))
    if not ordered:
        return None
    median = quantile(ordered, 0.5)
    relative = (ordered[-1] - ordered[0]) / median if len(ordered) > 1 and median else None
    return Spread(runs=len(ordered), median=median, minimum=ordered[0], maximum=ordered[-1], relative=relative)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The properties that repeats of a run share."""

    case: str
    """Name of the case."""
    model: str
    """Name of the model."""
    contract: tuple[tuple[str, object], ...]
    """Changes of the contract, path and value."""
    device: str
    """Model of the devices."""
    device_share: float
    """Part of one physical device that each rank had."""
    framework: str
    """Name of the framework plugin."""
    layout: Layout
    """Layout of the ranks."""
    tuning: tuple[tuple[str, object], ...]
    """Other changes, path and value."""


def kind_of(result: Result) -> Kind:
    """The kind of run that a result belongs to."""
    changes = [(change.contract, (change.path, change.value)) for change in result.fix_hp]
    return Kind(
        case=result.case,
        model=result.model.name,
        contract=tuple(sorted(change for contract, change in changes if contract)),
        device=result.hardware.device_model,
        device_share=result.hardware.device_share,
        framework=result.tuning.framework,
        layout=result.parallelism,
        tuning=tuple(sorted(change for contract, change in changes if not contract)),
    )


def device_throughput(result: Result) -> float | None:
    """Tokens a second of all the ranks that share one device; None where unknown."""
    figure, share = result.metrics.tokens_per_second_per_device, result.hardware.device_share
    return figure / share if figure is not None and share else None
