"""Two sides by their Chrome traces: seconds and calls of each operation in a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from llmperf.errors import UserError

from llmperf_trace.chrome_traces import Clock, read_trace
from llmperf_trace.differences import PartDifference, TracedRun, largest_first

SOURCE = "Chrome traces"
"""Where the figures are from."""
OTHER = "not what the profile in the records is made from: other times, or only some of the ranges of steps"
AGREEMENT = 0.1
"""Share by which the times of a trace may differ from those of the profile that was made with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedOperations:
    """The operations of a step by name, in the Chrome traces of one side."""

    files: tuple[Path, ...]
    clock: Clock
    """Times are those of what ran on the device, or of calls on the host without those that they make."""
    steps: int | None
    """Steps in the traces; None if neither records nor marks say: figures are of the whole trace."""
    operations: Mapping[str, tuple[float, float]]
    """Seconds and calls in a step."""
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """The sum of all operations, also of those that went on at the same time."""
        return sum(seconds for seconds, _ in self.operations.values())

    def document(self) -> dict[str, object]:
        """Plain values for JSON."""
        files = [str(file) for file in self.files]
        return {"files": files, "steps": self.steps, "clock": self.clock, "seconds": self.seconds, "notes": self.notes}


def of_run(run: TracedRun) -> TracedOperations | None:
    """The Chrome traces in a run folder that its records name; None if it has none any more."""
    if run.folder is None:
        return None
    steps = {profile.trace: profile.steps for profile in run.ranges if profile.trace is not None}
    names = sorted(name for name in steps if name == f"traces/{Path(name).name}" and (run.folder / name).is_file())
    files = [run.folder / name for name in names]
    if not files:
        return None
    found = of_files(files, [steps[name] for name in names])
    # calls on the host must take the time that the profile has; times of devices are those of other names
    known = {operation.name: operation.seconds for operation in run.profile.operations}
    theirs, ours = sum(known.values()), sum(found.operations[name][0] for name in known if name in found.operations)
    differs = found.clock == run.profile.clock == "host" and abs(ours - theirs) > AGREEMENT * theirs
    if len(files) == len(run.ranges) and not differs:
        return found
    return replace(found, notes=(*found.notes, OTHER))


def joined(run: TracedOperations, reference: TracedOperations) -> tuple[PartDifference, ...]:
    """All operations of both sides by name, the largest difference first."""
    none = (0.0, 0.0)
    parts = []
    for name in dict.fromkeys([*run.operations, *reference.operations]):
        (ours, calls), (theirs, their_calls) = run.operations.get(name, none), reference.operations.get(name, none)
        parts.append(
            PartDifference(name=name, seconds=ours, reference_seconds=theirs, calls=calls, reference_calls=their_calls)
        )
    return largest_first(parts)


def of_files(files: Sequence[Path], known_steps: Sequence[int | None] = (None,)) -> TracedOperations:
    """The Chrome traces of one side as one, with steps of the records, else those that the profiler marked."""
    traces = [read_trace(file) for file in files]
    if len({trace.clock for trace in traces}) > 1:
        raise UserError(f"{files[0].parent}: expected traces of one clock, found some of the device, some of the host")
    steps = [known or trace.marked_steps for known, trace in zip(known_steps, traces, strict=True)]
    whole = sum(steps) if all(steps) else 0
    sums: dict[str, tuple[float, float]] = {}
    for trace in traces:
        for name, seconds in trace.seconds.items():
            before = sums.get(name, (0.0, 0.0))
            sums[name] = before[0] + seconds / (whole or 1), before[1] + trace.calls[name] / (whole or 1)
    malformed = sum(trace.malformed for trace in traces)
    notes = [f"{malformed} events without a name or finite times are left out"] if malformed else []
    if not whole:
        notes.append("the number of steps is unknown: the figures are of the whole trace")
    return TracedOperations(
        files=tuple(files), clock=traces[0].clock, steps=whole or None, operations=sums, notes=tuple(notes)
    )
