"""The document of a reading: facts with their sources, the steps as columns, and the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

import llmperf
from llmperf import encode_pretty, utc_time, write_bytes

from llmperf_watch.figures import LARGEST_BOUND, OF_WHOLE_RUN, figures_of, printed_rounding
from llmperf_watch.profiles import WHOLE_RUN, Profile
from llmperf_watch.reading import Reading, Reported
from llmperf_watch.types import Clock, Sampled, Stated, Steps, Watched

FILE = "watched.json"
LOG = "output.log"
PRINTED = "printed by the program"
REQUIRED = ("step", "at")
OPTIONS = {
    "model": "--model", "precision": "--precision", "device_model": "--accelerator", "devices": "--devices",
    "seq_len": "--sequence-length", "global_batch": "--global-batch", "steps_per_line": "--steps-per-line",
}  # fmt: skip
"""The option that states each fact."""


def stated(options: Mapping[str, str | float | None], sources: Mapping[str, str] = OPTIONS) -> dict[str, Stated]:
    """The facts that options state; `sources` has what states each."""
    return {name: Stated(value=value if isinstance(value, str) else float(value), source=sources[name])
            for name, value in options.items() if value is not None}  # fmt: skip


def columns(reported: Sequence[Reported]) -> Steps:
    """The reported steps, one tuple for each field; empty for a field that no step has."""
    table = {}
    for field in (field.name for field in fields(Steps)):
        if field == "at":
            column = tuple(None if one.at is None else round(one.at, 6) for one in reported)
        else:
            column = tuple(one.values.get(field) for one in reported)
        if field in REQUIRED or any(value is not None for value in column):
            table[field] = column
    return Steps(**table)


def document(
    *,
    reading: Reading | None,
    lines: int,
    facts: Mapping[str, Stated],
    clock: Clock,
    evidence: str,
    command: Sequence[str] = (),
    exit_status: int | None = None,
    log: Path | None = None,
    sampled: Sampled | None = None,
    notes: Sequence[str] = (),
) -> Watched:
    """The whole document. Facts of the user come before those that the program printed."""
    known, remarks = dict(facts), list(notes)
    profile: Profile | None = None
    reported: Sequence[Reported] = ()
    if reading is None:
        propose = f"`llmperf watch --propose {'LOG' if log is None else log.name}` makes one of it, for --profile"
        remarks.append(f"no log profile fits the output, so no step was read: {propose}")
    else:
        profile, reported = reading.profile, reading.steps
        sizes = {step.global_batch for step in reported if step.global_batch}
        if len(sizes) > 1:
            remarks.append(_with_tokens(reading, known, min(sizes), max(sizes)))
        for name, value in reading.of_run.items():
            if name in WHOLE_RUN:
                digits = f"+-{printed_rounding(value):.2g} by its digits"
                known[name] = Stated(value=value, source=f"{OF_WHOLE_RUN}, {digits}")
            if name == "time_resolution":
                known[name] = Stated(value=value, source="the times that the program printed are in whole seconds")
            if name not in OPTIONS:
                continue
            if name in known and known[name].value != value:
                remarks.append(f"{known[name].source} {known[name].value:g}: the program printed {value:g}")
            known.setdefault(name, Stated(value=value, source=PRINTED))
        remarks += [profile.note] * bool(profile.note)
        if reading.dropped:
            remarks.append(f"{reading.dropped} later steps were not kept")
    steps = columns(reported)
    figures = figures_of(steps, known, clock)
    if "time_resolution" in known and figures.step_seconds is None:
        remarks.append(f"times in whole seconds are not read: the steps take less than {1 / LARGEST_BOUND:g} s")
    if figures.step_seconds is not None and OF_WHOLE_RUN in figures.step_seconds.source:
        remarks.append(
            "if the run was resumed, its speed is too high: steps of the parts before count, their time does not"
        )
    return Watched(
        created=utc_time(), llmperf_version=llmperf.__version__, evidence=evidence, clock=clock,  # type: ignore[arg-type]
        profile=profile.name if profile else None, profile_source=profile.source if profile else None,
        command=tuple(command), exit_status=exit_status, log=log.name if log else None,
        log_sha256=None if log is None else llmperf.sha256(log), lines=lines, facts=known, steps=steps,
        figures=figures, sampled=sampled, notes=tuple(remarks),
    )  # fmt: skip


def _with_tokens(reading: Reading, known: Mapping[str, Stated], least: float, most: float) -> str:
    """Give each step the tokens of its own batch, where the batch changes during the run; what is said of it."""
    del reading.of_run["global_batch"]
    stated = known.get("seq_len")
    seq_len = reading.of_run.get("seq_len") if stated is None else stated.value
    changes = f"the global batch changes from {least:g} to {most:g} sequences"
    if not isinstance(seq_len, float | int):
        return f"{changes}: the tokens of a step are not known without --sequence-length"
    for step in reading.steps:
        if step.global_batch:
            step.values.setdefault("tokens", step.global_batch * seq_len)
    return f"{changes}: each step has the tokens of its own"


def write(watched: Watched, folder: Path) -> Path:
    """Write the document into a folder; its path."""
    path = folder / FILE
    write_bytes(path, encode_pretty(watched))
    return path
