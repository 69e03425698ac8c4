"""One side of a comparison: the runs that count, what they are, and how many were left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from llmperf.reporting import device_throughput, disturbed
from llmperf.types import Result

from llmperf_compare.comparison import Comparison, compare
from llmperf_compare.kinds import Group, contract_differences, differing, grouped


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
    def share(self) -> float | None:
        """Median throughput of a device / that of the reference; None where the contracts differ."""
        return None if self.contract_differences else (self.device_throughput or self.throughput).ratio

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
