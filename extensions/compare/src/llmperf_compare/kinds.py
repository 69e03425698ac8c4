"""Kinds of run, equal in case, changes, device, framework and layout, and how they compare with a baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import inf, log
from pathlib import Path

from llmperf.reporting import Kind, Spread, device_throughput, disturbed, kind_of, spread, throughputs
from llmperf.types import Baseline, Result

from llmperf_compare.comparison import Comparison, compare


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Repeats of one run."""

    kind: Kind
    """The kind of the runs."""
    results: tuple[Result, ...]
    """All of them, also those that failed."""

    @property
    def spread(self) -> Spread | None:
        """Spread of token/p/s over the complete runs."""
        return spread(self.results)


def grouped(results: Iterable[Result]) -> list[Group]:
    """Results by kind, in the order in which the kinds first come."""
    kinds: dict[Kind, list[Result]] = {}
    for result in results:
        kinds.setdefault(kind_of(result), []).append(result)
    return [Group(kind=kind, results=tuple(members)) for kind, members in kinds.items()]


def differing(kinds: Sequence[Kind]) -> tuple[str, ...]:
    """Names of the fields in which any kind differs from any other."""
    return tuple(part.name for part in fields(Kind) if len({getattr(kind, part.name) for kind in kinds}) > 1)


def contract_differences(ours: Sequence[Result], theirs: Sequence[Result]) -> tuple[str, ...]:
    """Parts of the contract in which any result differs from any other: their throughputs measure different things."""
    everything = [*ours, *theirs]
    return tuple(sorted({name for result in everything[1:] for name in unlike(result, everything[0])}))


def unlike(ours: Result, theirs: Result) -> tuple[str, ...]:
    """Names of the contract's parts that differ between two results; `model` also where its facts do."""
    fields = type(ours.contract).__dataclass_fields__
    different = [name for name in fields if getattr(ours.contract, name) != getattr(theirs.contract, name)]
    facts = [replace(result.model, title="", source="") for result in (ours, theirs)]  # without what describes it only
    if "model" not in different and facts[0] != facts[1]:
        different.insert(0, "model")
    return tuple(different)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Runs of one kind compared with other runs."""

    group: Group
    baseline: Group
    """The runs they are compared with: of the same kind if there are any."""
    comparison: Comparison | None
    """Comparison of token/p/s; None where the runs or the baseline have none."""

    @property
    def share(self) -> float | None:
        """Median of the runs / median of the baseline."""
        return None if self.comparison is None else self.comparison.ratio

    @property
    def same_kind(self) -> bool:
        """The runs and the baseline are of one kind."""
        return self.group.kind == self.baseline.kind

    def document(self) -> dict[str, object]:
        """Plain values for JSON, without the group."""
        runs = [result.run_id for result in self.baseline.results]
        baseline = {"kind": self.baseline.kind, "runs": runs, "same_kind": self.same_kind}
        return {"baseline": baseline, "comparison": self.comparison}


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineComparison:
    """Runs of one kind compared with a figure from a document."""

    group: Group
    """The runs."""
    kind: str
    """Name of the kind of document: `published`."""
    place: str | None
    """Where the figure is; None if no figure fits."""
    figure: float | None
    """Its token/p/s; None if no figure fits, or it is withheld."""
    share: float | None
    """Median of the runs / that figure; None where either is unknown."""
    differs: tuple[str, ...]
    """In what else the figure and the runs differ."""
    why: str
    """The chosen figure, or the reason why there is none, in one line."""

    def figures(self) -> dict[str, object]:
        """Plain values for JSON, without the group."""
        values = {"place": self.place, "tokens_per_second_per_device": self.figure, "share": self.share}
        return {**values, "differs": self.differs, "why": self.why}

    def document(self) -> dict[str, object]:
        """The figures under the name of the kind of document."""
        return {self.kind: self.figures()}


AnyComparison = RunComparison | BaselineComparison


def compared_with_runs(group: Group, baselines: Sequence[Group]) -> RunComparison | None:
    """The group compared with the same kind, else the fastest on the same case, contract, device and part of it."""
    known = [baseline for baseline in baselines if baseline.spread is not None]
    same = [baseline for baseline in known if baseline.kind == group.kind]
    alike = [
        baseline for baseline in known
        if not {"case", "model", "contract", "device", "device_share"} & {*differing([baseline.kind, group.kind])}
    ]  # fmt: skip
    baseline = max(same or alike, key=lambda each: each.spread.median if each.spread else 0.0, default=None)
    if baseline is None:
        return None
    ours, theirs = throughputs(group.results), throughputs(baseline.results)
    comparison = compare(ours, theirs) if ours and min(*ours, *theirs) > 0 else None
    return RunComparison(group=group, baseline=baseline, comparison=comparison)


def compared_with_figures(group: Group, kind: str, baselines: Sequence[Baseline]) -> BaselineComparison:
    """The group compared with the figure of a `kind` of document that fits: of several, the one that differs least."""

    def comparison(why: str, best: Baseline | None = None, differs: tuple[str, ...] = ()) -> BaselineComparison:
        figure = None if best is None else best.tokens_per_second_per_device
        share = group.spread.median / figure if figure and group.spread else None
        place = None if best is None else best.place
        return BaselineComparison(
            group=group, kind=kind, place=place, figure=figure, share=share, differs=differs, why=why
        )

    result = group.results[0]
    if result.hardware.simulated:
        return comparison(f"{kind} rows are of real devices; these runs were on a simulated one")
    if result.hardware.device_share < 1:
        part = f"each rank had {100 * result.hardware.device_share:.4g} % of one"
        return comparison(f"{kind} rows are of whole devices; in these runs {part}")
    fitting = [baseline for baseline in baselines if not baseline.misfits(result)]
    if not fitting:
        alike = [baseline for baseline in baselines if baseline.model == result.model.name]
        if not alike:
            return comparison(f"none of {len(baselines)} {kind} rows is on {result.model.name}")
        misfits, nearest = min(((one.misfits(result), one) for one in alike), key=lambda pair: len(pair[0]))
        fewest = f"the nearest, {nearest.place}, has {', '.join(misfits)}"
        return comparison(f"none of {len(baselines)} {kind} rows fits; {fewest}")

    def distance(baseline: Baseline) -> tuple[bool, float, int, float]:
        """Smaller is nearer: with a figure, by global batch, by the number of other differences, the fastest."""
        figure, batch = baseline.tokens_per_second_per_device, baseline.global_batch
        apart = inf if batch is None else abs(log(batch / result.batch.global_batch))
        return figure is None, apart, len(baseline.differences(result)), -(figure or 0.0)

    best = min(fitting, key=distance)
    if best.tokens_per_second_per_device is None:
        return comparison(f"{best.place} fits, but withholds its throughput", best)
    differs = best.differences(result)
    why = f"{best.place}, {best.tokens_per_second_per_device:g} token/p/s"
    return comparison(why + (f"; it differs in {', '.join(differs)}" if differs else ""), best, differs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Runs that are compared with others."""

    results: tuple[Result, ...]
    """Complete ones with a throughput, each of another run."""
    left_out: Mapping[str, int]
    """Number of results that do not count, by reason."""

    @property
    def groups(self) -> list[Group]:
        """The runs by kind."""
        return grouped(self.results)

    @property
    def mixes(self) -> tuple[str, ...]:
        """In what its kinds of run differ; empty if all are of one kind."""
        return differing([group.kind for group in self.groups])

    @property
    def shares(self) -> tuple[float, ...]:
        """The parts of a device that its ranks had, ascending."""
        return tuple(sorted({result.hardware.device_share for result in self.results}))

    def document(self) -> dict[str, object]:
        """Plain values for JSON."""
        kinds = [
            {"kind": group.kind, "runs": [result.run_id for result in group.results], "spread": group.spread}
            for group in self.groups
        ]
        unsteady = [result.run_id for result in self.results if disturbed(result)]
        values = {"runs": len(self.results), "kinds": kinds, "mixes": self.mixes}
        return {**values, "left_out": self.left_out, "disturbed": unsteady}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstReference:
    """One side compared with the reference."""

    contract_differences: tuple[str, ...]
    """Parts of the contract in which the runs differ: their throughputs then measure different things."""
    throughput: Comparison
    """Comparison of token/p/s, which is that of a rank."""
    device_throughput: Comparison | None
    """Comparison of the tokens a second of a whole device; None if every rank had the same share of one."""

    @property
    def of_devices(self) -> Comparison | None:
        """Comparison of the throughput of a device; None where the contracts differ."""
        return None if self.contract_differences else self.device_throughput or self.throughput

    def document(self) -> dict[str, object]:
        """Plain values for JSON: no throughput where the contracts differ."""
        alike = not self.contract_differences
        return {
            "contract_differences": self.contract_differences,
            "throughput": self.throughput if alike else None,
            "device_throughput": self.device_throughput if alike else None,
        }


def compared(ours: Side, theirs: Side) -> AgainstReference:
    """Compare one side with another, the reference."""

    def comparison(figure: Callable[[Result], float | None]) -> Comparison:
        return compare(*([value for result in side.results if (value := figure(result))] for side in (ours, theirs)))

    apart = {*ours.shares, *theirs.shares}
    return AgainstReference(
        contract_differences=contract_differences(ours.results, theirs.results),
        throughput=comparison(lambda result: result.metrics.tokens_per_second_per_device),
        device_throughput=comparison(device_throughput) if len(apart) > 1 and 0 not in apart else None,
    )


def side_of(runs: Sequence[tuple[Path, Result]], count: int) -> Side:
    """The side made of results of different runs; `count` includes further results that are copies of them."""
    complete: list[Result] = []
    left_out: Counter[str] = Counter()
    for _, result in runs:
        if result.status != "complete":
            left_out[result.status] += 1
        elif not result.metrics.tokens_per_second_per_device:
            left_out["without a throughput"] += 1
        else:
            complete.append(result)
    left_out.update({"copies": count - len(runs)} if count > len(runs) else {})
    return Side(results=tuple(complete), left_out=left_out)
