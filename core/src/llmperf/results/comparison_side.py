"""One side of a comparison: the runs that count, what they are, and how many were left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from llmperf.results.comparison import Comparison, compare
from llmperf.results.groups import Group, contract_differences, differing, disturbed, grouped
from llmperf.types.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Runs that are held against others."""

    results: tuple[Result, ...]
    """Complete ones with a throughput, each of another run."""
    left_out: Mapping[str, int]
    """How many results do not count, by why."""

    @property
    def groups(self) -> list[Group]:
        """The runs by kind."""
        return grouped(self.results)

    @property
    def mixes(self) -> tuple[str, ...]:
        """In what its kinds of run differ; empty where all are of one kind."""
        return differing([group.kind for group in self.groups])

    @property
    def shares(self) -> tuple[float, ...]:
        """The parts of a device that its ranks had, ascending."""
        return tuple(sorted({one.hardware.device_share for one in self.results}))

    def document(self) -> dict[str, object]:
        """For programs."""
        kinds = [
            {"kind": group.kind, "runs": [one.run_id for one in group.results], "spread": group.spread}
            for group in self.groups
        ]
        uneven = [one.run_id for one in self.results if disturbed(one)]
        told = {"runs": len(self.results), "kinds": kinds, "mixes": self.mixes}
        return {**told, "left_out": self.left_out, "disturbed": uneven}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Two sides held against each other."""

    contract_differences: tuple[str, ...]
    """In what any run's contract differs from any other's: their throughputs measure different things then."""
    throughput: Comparison
    """Of token/p/s, which is that of a rank."""
    device_throughput: Comparison | None
    """Of the tokens a second of a whole device; None where every rank had the same part of one."""


def compared(ours: Side, theirs: Side) -> Sides:
    """Hold one side against the other."""
    apart = {*ours.shares, *theirs.shares}
    return Sides(
        contract_differences=contract_differences(ours.results, theirs.results),
        throughput=_throughputs(ours, theirs, rank_throughput),
        device_throughput=_throughputs(ours, theirs, device_throughput) if len(apart) > 1 and 0 not in apart else None,
    )


def _throughputs(ours: Side, theirs: Side, figure: Callable[[Result], float | None]) -> Comparison:
    one, other = ([found for one in side.results if (found := figure(one))] for side in (ours, theirs))
    return compare(one, other)


def side(results: Sequence[Result], copies: int) -> Side:
    """The side that results of different runs make, of which there were so many copies besides."""
    why = [_why_not(one) for one in results]
    left_out = Counter(one for one in why if one is not None)
    left_out.update({"copies": copies} if copies else {})
    return Side(results=tuple(one for one, no in zip(results, why, strict=True) if no is None), left_out=left_out)


def _why_not(result: Result) -> str | None:
    if result.status != "complete":
        return result.status
    return None if rank_throughput(result) else "without a throughput"


def rank_throughput(result: Result) -> float | None:
    """token/p/s; None where unknown."""
    return result.metrics.tokens_per_second_per_device


def device_throughput(result: Result) -> float | None:
    """Tokens a second of all the ranks that share one device; None where unknown."""
    figure, share = rank_throughput(result), result.hardware.device_share
    return figure / share if figure is not None and share else None
