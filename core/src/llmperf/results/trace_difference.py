"""Two traced runs side by side: which operations account for the difference of their steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from llmperf.errors import UserError
from llmperf.files.json_files import sha256
from llmperf.files.text import printable
from llmperf.runfolder import filenames
from llmperf.runfolder.reader import RecordFile
from llmperf.types.profile import StepProfile
from llmperf.types.records import ProfileRecord
from llmperf.types.result import Result

PartKind = Literal["products", "attention", "collectives", "memory", "host gaps", "other"]
"""What a part of a step does. `memory`: operations that are bound by the memory's bandwidth: norms, activations,
copies, the update; `other`: what the rest does not add up to, below 0 where operations go on at the same time."""

COMMUNICATION = "communication, not beside computation"
IDLE = "neither operations nor communication"
REMAINDER = "operations at the same time, and what the profiler did not see"
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
    folder: Path | None = None
    """The run folder."""
    ranges: tuple[StepProfile, ...] = ()
    """Of each range of steps, with its Chrome trace; `profile` is their mean."""


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
        """Plain values of an operation whose calls are known, for JSON."""
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
        seconds = {"seconds": part.seconds, "reference_seconds": part.reference_seconds}
        seconds["difference_seconds"] = part.difference
        return {"name": part.name, "kind": part.kind, **seconds, "share": self.share(part)}


def traced_run(results: Sequence[tuple[Path, Result]]) -> TracedRun | None:
    """The complete run with the median traced step among some results; None if none has a trace.

    UserError for records that cannot be read, that are not those of the result, or that no profiler could have made.
    """
    runs = [run for path, result in results if result.status == "complete" and (run := _traced(path, result))]
    ordered = sorted(runs, key=lambda run: (run.profile.step_seconds, run.run_id))
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def _traced(path: Path, result: Result) -> TracedRun | None:
    file = RecordFile(records := filenames.records_path(path.parent, 0))
    profiles = [record.profile for block in file.blocks() for record in block if isinstance(record, ProfileRecord)]
    if not profiles:
        return None
    listed = result.files.get(f"{filenames.RECORDS}/{records.name}")
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
        profile=StepProfile.mean(profiles),
        measured_seconds=None if steps is None else steps.median,
        folder=path.parent,
        ranges=tuple(profiles),
    )


def trace_difference(run: TracedRun, reference: TracedRun) -> TraceDifference:
    """The traced steps of two runs, operation by operation."""
    ours, theirs = _parts(run.profile), _parts(reference.profile)
    parts = [
        PartDifference(
            name=name,
            kind=kind,
            seconds=ours.get((name, kind), 0.0),
            reference_seconds=theirs.get((name, kind), 0.0),
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


def kind_seconds(profile: StepProfile) -> dict[PartKind, float]:
    """Seconds of a traced step by kind, which add up to the step; the longest first."""
    kinds: dict[PartKind, float] = {}
    for (_, kind), seconds in _parts(profile).items():
        kinds[kind] = kinds.get(kind, 0.0) + seconds
    return dict(sorted(kinds.items(), key=lambda item: -item[1]))


def _parts(profile: StepProfile) -> dict[tuple[str, PartKind], float]:
    """Seconds of a step by operation and kind, which add up to the step."""
    seconds: dict[tuple[str, PartKind], float] = {}
    for operation in profile.operations:
        key = operation.name, _kind(operation.kind)
        seconds[key] = seconds.get(key, 0.0) + operation.seconds
    seconds[COMMUNICATION, "collectives"] = max(0.0, profile.communication_seconds - profile.overlapped_seconds)
    seconds[IDLE, "host gaps"] = profile.idle_seconds
    seconds[REMAINDER, "other"] = profile.step_seconds - sum(seconds.values())
    return seconds


def _kind(kind: str) -> PartKind:
    if kind == "matmul":
        return "products"
    return "attention" if kind == "attention" else "memory"
