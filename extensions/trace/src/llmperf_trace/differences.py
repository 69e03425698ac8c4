"""Two traced runs side by side: which operations account for the difference of their steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign
from pathlib import Path

from llmperf import printable, rank_records, sha256
from llmperf.errors import UserError
from llmperf.types import ProfileRecord, Result, StepProfile

from llmperf_trace.step_parts import PartKind, mean_profile, parts_of_step

SOURCE = "the profiles in the records of rank 0"
"""Where the figures are from."""
LONGEST_SECONDS = 1e9
SHORTEST_SECONDS = 1e-9
"""Differences below are not divided by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRun:
    """A run with the profile of the steps that it traced (`llmperf run --trace`)."""

    run_id: str
    profile: StepProfile
    measured_seconds: float | None
    """Median of the measured steps, without a profiler; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDifference:
    """A part of a step on two sides: operations of one name or kind; 0 for a side that has none."""

    name: str
    kind: PartKind = "other"
    seconds: float
    """In a step of the run."""
    reference_seconds: float
    """In a step of the reference."""
    calls: float = 0.0
    """In a step of the run, if they are known."""
    reference_calls: float = 0.0

    @property
    def difference(self) -> float:
        """Seconds that the run takes longer than the reference."""
        return self.seconds - self.reference_seconds

    def document(self) -> dict[str, object]:
        """Plain values for JSON."""
        seconds = {"seconds": self.seconds, "reference_seconds": self.reference_seconds}
        calls = {"calls": self.calls, "reference_calls": self.reference_calls}
        return {"name": self.name, **seconds, "difference_seconds": self.difference, **calls}


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceDifference:
    """A traced step against that of a reference. The differences of all parts add up to that of the steps."""

    run: TracedRun
    reference: TracedRun
    parts: tuple[PartDifference, ...]
    """Each operation by name, largest difference first."""
    kinds: tuple[PartDifference, ...]
    """Their sums by kind, largest difference first."""

    @property
    def step(self) -> PartDifference:
        """The whole step."""
        ours, theirs = self.run.profile.step_seconds, self.reference.profile.step_seconds
        return PartDifference(name="traced step", seconds=ours, reference_seconds=theirs)

    def share(self, part: PartDifference) -> float | None:
        """The part of the step's difference that it accounts for; None if the steps take equally long."""
        whole = self.step.difference
        return part.difference / whole if abs(whole) >= SHORTEST_SECONDS else None

    def document(self) -> dict[str, object]:
        """Plain values for JSON."""
        sides = {
            name: {
                "run": run.run_id,
                "traced_step_seconds": run.profile.step_seconds,
                "measured_step_seconds": run.measured_seconds,
                "clock": run.profile.clock,
                "profiler": run.profile.profiler,
            }
            for name, run in (("traced", self.run), ("reference", self.reference))
        }
        return {
            "source": SOURCE,
            **sides,
            "difference_seconds": self.step.difference,
            "kinds": [self._values(part) for part in self.kinds],
            "operations": [self._values(part) for part in self.parts],
        }

    def _values(self, part: PartDifference) -> dict[str, object]:
        return part.document() | {"kind": part.kind, "share": self.share(part)}


def is_explained(traced: float, measured: float) -> bool:
    """The traced steps of two runs differ as the measured ones do: in one direction, by half to twice as much."""
    return 0.5 * abs(measured) <= traced * copysign(1, measured) <= 2 * abs(measured)


def traced_run(results: Sequence[tuple[Path, Result]]) -> TracedRun | None:
    """The complete run with the median traced step among some results; None if none has a trace."""
    runs = [run for path, result in results if result.status == "complete" and (run := _traced(path, result))]
    ordered = sorted(runs, key=lambda run: (run.profile.step_seconds, run.run_id))
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def _traced(path: Path, result: Result) -> TracedRun | None:
    records = path.parent / "records" / "rank-00000.jsonl"
    profiles = [record.profile for record in rank_records(path.parent, 0) if isinstance(record, ProfileRecord)]
    if not profiles:
        return None
    listed = result.files.get(f"records/{records.name}")
    if listed is not None and listed != sha256(records):
        raise UserError(f"{records}: expected the records of {path}, found others (another hash): no explanation")
    for profile in profiles:
        whole = ("step_seconds", "communication_seconds", "overlapped_seconds", "idle_seconds")
        times = [(name, getattr(profile, name)) for name in whole]
        for name, seconds in (*times, *((operation.name, operation.seconds) for operation in profile.operations)):
            if not 0 <= seconds <= LONGEST_SECONDS:
                expected = f"expected 0 to {LONGEST_SECONDS:g} seconds, found {seconds:g}"
                raise UserError(printable(f"{records}: profile: {name[:60]}: {expected}"))
    steps = result.metrics.step_seconds
    return TracedRun(
        run_id=result.run_id,
        profile=mean_profile(profiles),
        measured_seconds=None if steps is None else steps.median,
    )


def trace_difference(run: TracedRun, reference: TracedRun) -> TraceDifference:
    """The traced steps of two runs, operation by operation."""
    ours, theirs = parts_of_step(run.profile), parts_of_step(reference.profile)
    calls, before = ({each.name: each.calls for each in side.profile.operations} for side in (run, reference))
    parts = [
        PartDifference(
            name=name,
            kind=kind,
            seconds=ours.get((name, kind), 0.0),
            reference_seconds=theirs.get((name, kind), 0.0),
            calls=calls.get(name, 0.0),
            reference_calls=before.get(name, 0.0),
        )
        for name, kind in dict.fromkeys([*ours, *theirs])
    ]
    kinds = [
        summed(kind, [part for part in parts if part.kind == kind], kind)
        for kind in dict.fromkeys(part.kind for part in parts)
    ]
    return TraceDifference(run=run, reference=reference, parts=largest_first(parts), kinds=largest_first(kinds))


def summed(name: str, parts: Sequence[PartDifference], kind: PartKind = "other") -> PartDifference:
    """Several parts as one."""
    figures = ("seconds", "reference_seconds", "calls", "reference_calls")
    sums = {each: sum(getattr(part, each) for part in parts) for each in figures}
    return PartDifference(name=name, kind=kind, **sums)


def largest_first(parts: Sequence[PartDifference]) -> tuple[PartDifference, ...]:
    """The parts by the size of their differences."""
    return tuple(sorted(parts, key=lambda part: (-abs(part.difference), part.name)))
