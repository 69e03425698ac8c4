"""The reason why a step takes longer than another: a page of `llmperf compare --explain`."""

from __future__ import annotations

import math
from collections.abc import Iterator

from llmperf.reporting import UNKNOWN, Column, Line, Page, printable

from llmperf_trace.differences import SOURCE, PartDifference, TraceDifference, TracedRun, summed
from llmperf_trace.trace_operations import TracedOperations, joined

MOST_OPERATIONS = 12
"""Rows of single operations; JSON has all."""
MOST_NAME = 60
NAMED_SHARE = 0.05
"""Kinds that account for less of the difference are in the table alone."""
HOW = (
    f"from {SOURCE}, which the hashes of the result cover; each side by one run, that with the median traced step; a"
    " profiler slows steps down: compare the differences, not the times"
)
HOW_TRACES = (
    "from the Chrome traces, which no hash of a result covers; times of operations that went on at the same time are"
    " added up, so that the sum is not the time of a step; of calls on the host, each without those that it makes"
)


def explanation_page(name: str, reference: str, found: TraceDifference) -> Page:
    """The difference of two sides by kind of operation and by operation; both add up to that of the traced steps."""
    shown, others = found.parts[:MOST_OPERATIONS], found.parts[MOST_OPERATIONS:]
    kinds = [*(_row(part.name, part, found) for part in found.kinds), _row("traced step", found.step, found)]
    operations = [_row(f"{printable(part.name, MOST_NAME)} ({part.kind})", part, found) for part in shown]
    if others:
        operations.append(_row(f"{len(others)} others", summed("others", others), found))
    titles = (f"{reference}, ms", f"{name}, ms", f"{name} - {reference}, ms", "share")
    return Page(
        title=f"Why {name} and {reference} differ",
        about=tuple(
            Line(text=f"{side}: {_traced(run)}") for side, run in ((reference, found.reference), (name, found.run))
        ),
        answers=(Line(text=_answer(name, reference, found)),),
        columns=(
            Column(title="of a traced step", importance=1, wraps=18),
            *(Column(title=title, importance=place, right=True) for place, title in enumerate(titles, 2)),
        ),
        rows=tuple(map(tuple, [*kinds, *operations])),
        groups=(("by kind", len(kinds)), ("by operation", len(operations))),
        warnings=tuple(_warnings(found)),
        notes=(Line(text=HOW, tone="context"),),
    )


def operations_page(name: str, reference: str, run: TracedOperations, theirs: TracedOperations) -> Page:
    """The operations of two sides by name, in their Chrome traces."""
    parts = joined(run, theirs)
    shown, others = parts[:MOST_OPERATIONS], parts[MOST_OPERATIONS:]
    rows = [summed("all operations", parts), *shown]
    if others:
        rows.append(summed(f"{len(others)} others", others))
    titles = (f"{reference}, ms", f"{name}, ms", f"{name} - {reference}, ms", f"{reference}, calls", f"{name}, calls")
    sides = ((reference, theirs), (name, run))
    notes = [Line(text=f"{side}: {note}", tone="warning") for side, traces in sides for note in traces.notes]
    if run.clock != theirs.clock:
        text = f"{reference}'s times are those of the {theirs.clock}, {name}'s those of the {run.clock}"
        notes.append(Line(text=text, tone="warning"))
    return Page(
        title=f"Operations of {name} and {reference} in their Chrome traces",
        about=tuple(Line(text=f"{side}: {_trace_files(traces)}") for side, traces in sides),
        columns=(
            Column(title="operation", importance=1, wraps=18),
            *(Column(title=title, importance=place, right=True) for place, title in enumerate(titles, 2)),
        ),
        rows=tuple(
            (
                printable(part.name, MOST_NAME),
                *(_ms(part.reference_seconds), _ms(part.seconds), _signed(part.difference)),
                *(f"{part.reference_calls:,.5g}", f"{part.calls:,.5g}"),
            )
            for part in rows
        ),
        warnings=tuple(notes),
        notes=(Line(text=HOW_TRACES, tone="context"),),
    )


def _trace_files(traces: TracedOperations) -> str:
    files = ", ".join(printable(str(file)) for file in traces.files)
    steps = "of the whole trace" if traces.steps is None else f"means of {traces.steps} steps"
    on = "kernels on the device" if traces.clock == "device" else "calls on the host"
    return f"{files}: {on}, {steps}"


def _traced(run: TracedRun) -> str:
    traced = f"{printable(run.run_id)}: traced step {_ms(run.profile.step_seconds)} ms"
    if run.measured_seconds is None:
        return traced
    return f"{traced}, measured step {_ms(run.measured_seconds)} ms (median, without the profiler)"


def _answer(name: str, reference: str, found: TraceDifference) -> str:
    """The whole difference in one sentence, with the kinds that account for most of it."""
    whole = found.step.difference
    causes = [
        f"{part.name} {_signed(part.difference)} ms"
        for part in found.kinds
        if abs(part.difference) >= NAMED_SHARE * abs(whole) and part.difference
    ]
    longer = "longer" if whole > 0 else "shorter"
    return (
        f"{name}'s traced step is {_ms(abs(whole))} ms {longer} than {reference}'s: {', '.join(causes) or 'no cause'}"
    )


def _warnings(found: TraceDifference) -> Iterator[Line]:
    ours, theirs = found.run.profile, found.reference.profile
    if ours.clock != theirs.clock:
        text = f"the times of operations are those of the {ours.clock} on one side, of the {theirs.clock} on the other"
        yield Line(text=text, tone="warning")
    if found.run.measured_seconds is None or found.reference.measured_seconds is None:
        return
    measured = found.run.measured_seconds - found.reference.measured_seconds
    if not 0.5 * abs(measured) <= found.step.difference * math.copysign(1, measured) <= 2 * abs(measured):
        text = (
            f"the measured steps differ by {_signed(measured)} ms, the traced ones by {_signed(found.step.difference)}"
            " ms: this does not explain the measured difference; trace more steps on a quiet machine"
        )
        yield Line(text=text, tone="warning")


def _row(name: str, part: PartDifference, found: TraceDifference) -> list[str]:
    share = found.share(part)
    shown = UNKNOWN if share is None else f"{round(100 * share, 1) + 0.0:.1f} %"  # no -0.0
    return [name, _ms(part.reference_seconds), _ms(part.seconds), _signed(part.difference), shown]


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.2f}"


def _signed(seconds: float) -> str:
    return f"{1e3 * seconds:+,.2f}"
