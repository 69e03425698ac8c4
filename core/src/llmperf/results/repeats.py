"""Which runs belong together: runs of one kind, with their spread.

Runs of one kind have the same case, model, changes, device and share of it, framework and layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

from llmperf.results.statistics import quantile
from llmperf.types.layout import Layout
from llmperf.types.models import Model
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
    """What runs have in common that are repeats of each other."""

    case: str
    """Name of the case."""
    model: str
    """Name of the model."""
    contract: tuple[tuple[str, object], ...]
    """What was changed in it, path and value."""
    device: str
    """Model of the devices."""
    device_share: float
    """Part of one physical device that each rank had."""
    framework: str
    """Name of the framework plugin."""
    layout: Layout
    """How the ranks shared the model."""
    tuning: tuple[tuple[str, object], ...]
    """What else was changed, path and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Repeats of one run."""

    kind: Kind
    """What they have in common."""
    results: tuple[Result, ...]
    """All of them, also those that failed."""

    @property
    def spread(self) -> Spread | None:
        """Of token/p/s over the complete ones."""
        return spread(self.results)


def kind_of(result: Result) -> Kind:
    """What a result is a repeat of."""
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


def grouped(results: Iterable[Result]) -> list[Group]:
    """Results by kind, in the order in which the kinds first come."""
    kinds: dict[Kind, list[Result]] = {}
    for result in results:
        kinds.setdefault(kind_of(result), []).append(result)
    return [Group(kind=kind, results=tuple(members)) for kind, members in kinds.items()]


def differing(kinds: Sequence[Kind]) -> tuple[str, ...]:
    """Names of the fields in which any kind differs from any other."""
    return tuple(part.name for part in fields(Kind) if len({getattr(kind, part.name) for kind in kinds}) > 1)


def baseline_of(group: Group, baselines: Sequence[Group]) -> Group | None:
    """The same kind; else the fastest on the same case, contract, device and part of it; None where neither is."""
    known = [baseline for baseline in baselines if baseline.spread is not None]
    same = [baseline for baseline in known if baseline.kind == group.kind]
    alike = [baseline for baseline in known if _measured(baseline.kind) == _measured(group.kind)]
    return max(same or alike, key=lambda group: group.spread.median if group.spread else 0.0, default=None)


def _measured(kind: Kind) -> tuple[object, ...]:
    """What was measured on what, however it was run."""
    return kind.case, kind.model, kind.contract, kind.device, kind.device_share


def contract_differences(ours: Sequence[Result], theirs: Sequence[Result]) -> tuple[str, ...]:
    """Parts of the contract in which any result differs from any other: their throughputs measure different things."""
    everything = [*ours, *theirs]
    return tuple(sorted({name for result in everything[1:] for name in unlike(result, everything[0])}))


def unlike(ours: Result, theirs: Result) -> tuple[str, ...]:
    """Names of the contract's parts that differ between two results; `model` also where its facts do."""
    fields = type(ours.contract).__dataclass_fields__
    different = [name for name in fields if getattr(ours.contract, name) != getattr(theirs.contract, name)]
    if "model" not in different and _facts(ours) != _facts(theirs):
        different.insert(0, "model")
    return tuple(different)


def _facts(result: Result) -> Model:
    """The model without the fields that only describe it."""
    return replace(result.model, title="", source="")


def device_throughput(result: Result) -> float | None:
    """Tokens a second of all the ranks that share one device; None where unknown."""
    figure, share = result.metrics.tokens_per_second_per_device, result.hardware.device_share
    return figure / share if figure is not None and share else None
