"""The traces that `llmperf compare --explain` reads: those of runs, or files of Chrome traces by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
from llmperf import print_json, warn
from llmperf.errors import UserError
from llmperf.reporting import UNKNOWN, Column, printable
from llmperf.types import Result
from llmperf_compare.page import Line, Page, print_page

from llmperf_trace.chrome_traces import TraceOperations, is_trace, read_trace
from llmperf_trace.differences import (
    SOURCE,
    PartDifference,
    TraceDifference,
    TracedRun,
    is_explained,
    largest_first,
    summed,
    trace_difference,
    traced_run,
)

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
    return Page(
        title=f"Why {name} and {reference} differ",
        about=tuple(
            Line(text=f"{side}: {_traced(run)}") for side, run in ((reference, found.reference), (name, found.run))
        ),
        answers=(Line(text=_answer(name, reference, found)),),
        columns=_columns("of a traced step", name, reference, "share"),
        rows=tuple(map(tuple, [*kinds, *operations])),
        groups=(("by kind", len(kinds)), ("by operation", len(operations))),
        warnings=tuple(_warnings(found)),
        notes=(Line(text=HOW, tone="context"),),
    )


def operations_page(traces: Mapping[str, tuple[Path, TraceOperations]], parts: Sequence[PartDifference]) -> Page:
    """The operations of two sides, the reference first, by name, in their Chrome traces."""
    shown, others = parts[:MOST_OPERATIONS], parts[MOST_OPERATIONS:]
    rows = [summed("all operations", parts), *shown, *([summed(f"{len(others)} others", others)] if others else [])]
    about = []
    for side, (path, trace) in traces.items():
        steps = f"means of {trace.marked_steps} steps" if trace.marked_steps else "of the whole trace"
        on = "kernels on the device" if trace.clock == "device" else "calls on the host"
        about.append(Line(text=f"{side}: {printable(str(path))}: {on}, {steps}"))
    notes = [
        Line(text=f"{side}: {note}", tone="warning") for side, (_, trace) in traces.items() for note in trace.notes
    ]
    (reference, (_, theirs)), (name, (_, run)) = traces.items()
    if run.clock != theirs.clock:
        text = f"{reference}'s times are those of the {theirs.clock}, {name}'s those of the {run.clock}"
        notes.append(Line(text=text, tone="warning"))
    return Page(
        title=f"Operations of {name} and {reference} in their Chrome traces",
        about=tuple(about),
        columns=_columns("operation", name, reference),
        rows=tuple((printable(part.name, MOST_NAME), *_figures(part)) for part in rows),
        warnings=tuple(notes),
        notes=(Line(text=HOW_TRACES, tone="context"),),
    )


def _columns(first: str, name: str, reference: str, *further: str) -> tuple[Column, ...]:
    titles = [f"{reference}, ms", f"{name}, ms", f"{name} - {reference}, ms", f"{reference}, calls", f"{name}, calls"]
    columns = [Column(title=title, importance=place, right=True) for place, title in enumerate([*titles, *further], 2)]
    return (Column(title=first, importance=1, wraps=18), *columns)


def _figures(part: PartDifference) -> list[str]:
    calls = (f"{each:,.5g}" if each or part.calls else UNKNOWN for each in (part.reference_calls, part.calls))
    return [_ms(part.reference_seconds), _ms(part.seconds), _signed(part.difference), *calls]


def _traced(run: TracedRun) -> str:
    traced = f"{printable(run.run_id)}: traced step {_ms(run.profile.step_seconds)} ms"
    known = "" if run.measured_seconds is None else f", measured step {_ms(run.measured_seconds)} ms"
    return traced + (known and f"{known} (median, without the profiler)")


def _answer(name: str, reference: str, found: TraceDifference) -> str:
    """The whole difference in one sentence, with the kinds that account for most of it."""
    whole = found.step.difference
    causes = [
        f"{part.name} {_signed(part.difference)} ms"
        for part in found.kinds
        if abs(part.difference) >= NAMED_SHARE * abs(whole) and part.difference
    ]
    longer = f"{_ms(abs(whole))} ms {'longer' if whole > 0 else 'shorter'}"
    return f"{name}'s traced step is {longer} than {reference}'s: {', '.join(causes) or 'no cause'}"


def _warnings(found: TraceDifference) -> Iterator[Line]:
    ours, theirs = found.run.profile, found.reference.profile
    if ours.clock != theirs.clock:
        text = f"the times of operations are those of the {ours.clock} on one side, of the {theirs.clock} on the other"
        yield Line(text=text, tone="warning")
    if found.run.measured_seconds is None or found.reference.measured_seconds is None:
        return
    measured = found.run.measured_seconds - found.reference.measured_seconds
    if not is_explained(found.step.difference, measured):
        text = (
            f"the measured steps differ by {_signed(measured)} ms, the traced ones by {_signed(found.step.difference)}"
            " ms: this does not explain the measured difference; trace more steps on a quiet machine"
        )
        yield Line(text=text, tone="warning")


def _row(name: str, part: PartDifference, found: TraceDifference) -> list[str]:
    share = found.share(part)  # no -0.0
    return [name, *_figures(part), UNKNOWN if share is None else f"{round(100 * share, 1) + 0.0:.1f} %"]


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.2f}"


def _signed(seconds: float) -> str:
    return f"{1e3 * seconds:+,.2f}"


TRACES = "Chrome traces"
"""Where the figures of files are from."""


def explained(
    sides: Mapping[str, Sequence[tuple[Path, Result]]],
    folders: Mapping[str, Path],
    alike: Mapping[str, bool],
    wanted: str,
) -> dict[str, TraceDifference]:
    """The traced steps of further sides against those of the first: of those in `alike` with the same contract."""
    _check_format(wanted)
    if len(sides) < 2:
        raise UserError("--explain: expected runs on two sides, found one side")
    reference = next(iter(sides))
    for name in [name for name, same in alike.items() if not same]:
        warn(f"--explain: {folders[name]}: another contract than {reference}: its operations are of other work")
    others = [name for name, same in alike.items() if same]
    traced = {name: traced_run(sides[name]) for name in (reference, *others)} if others else {}
    for name in [name for name, run in traced.items() if run is None]:
        warn(f"--explain: {folders[name]}: no run has a trace (llmperf run --trace 3)")
    theirs = traced.get(reference)
    return {
        name: trace_difference(ours, theirs)
        for name in others
        if (ours := traced[name]) is not None and theirs is not None
    }


def show(reference: str, differences: Mapping[str, TraceDifference], wanted: str, language: str) -> None:
    """Print a page for each side."""
    for name, difference in differences.items():
        click.echo()
        print_page(explanation_page(name, reference, difference), wanted, language)


def _check_format(wanted: str) -> None:
    if wanted not in ("terminal", "markdown", "json"):
        raise UserError(f"--explain: expected --format terminal, markdown or json, found {wanted}")


def compared_trace_files(
    folders: Mapping[str, Path], explain: bool, fail_below: float | None, wanted: str, language: str
) -> bool:
    """Print the operations of sides that are files of Chrome traces; False if none is, UserError if only some are."""
    traces = {name: path for name, path in folders.items() if path.is_file() and is_trace(path)}
    if not traces:
        return False
    if not explain:
        raise UserError(f"{next(iter(traces.values()))}: a Chrome trace has no measured figures; add --explain")
    if fail_below is not None:
        raise UserError("--fail-below: expected runs: Chrome traces have no measured figures")
    if others := [path for path in folders.values() if path.is_dir()]:
        raise UserError(f"{others[0]}: expected a Chrome trace, since {next(iter(traces.values()))} is one")
    places = [path.resolve() for path in folders.values()]
    if twice := [path for path, place in zip(folders.values(), places, strict=True) if places.count(place) > 1]:
        raise UserError(f"{twice[0]}: expected different files on all sides")
    sides = {name: read_trace(path) for name, path in folders.items()}
    _check_format(wanted)
    reference, *further = sides
    parts = {name: _parts(sides[name], sides[reference]) for name in further}
    if wanted == "json":
        known = {name: side.document(folders[name]) for name, side in sides.items()}
        both = {name: {"source": TRACES, "traced": known[name], "reference": known[reference]} for name in further}
        compared = {name: both[name] | {"operations": [part.document() for part in parts[name]]} for name in further}
        print_json({"reference": reference, "sides": known, "chrome_traces": compared})
        return True
    for place, name in enumerate(further):
        click.echo("\n" if place else "", nl=False)
        both_traces = {each: (folders[each], sides[each]) for each in (reference, name)}
        print_page(operations_page(both_traces, parts[name]), wanted, language)
    return True


def _parts(run: TraceOperations, reference: TraceOperations) -> tuple[PartDifference, ...]:
    """All operations of both sides by name, the largest difference first."""
    parts = []
    for name in dict.fromkeys([*run.seconds, *reference.seconds]):
        (ours, calls), (theirs, before) = run.of_step(name), reference.of_step(name)
        parts.append(
            PartDifference(name=name, seconds=ours, reference_seconds=theirs, calls=calls, reference_calls=before)
        )
    return largest_first(parts)
