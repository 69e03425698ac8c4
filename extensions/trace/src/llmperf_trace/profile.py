"""Show where the time of a step goes, by the framework's profiler, and against the estimate by kind of operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from llmperf import (
    Folder,
    encode_pretty,
    expected_work,
    headings_option,
    planned_task,
    print_json,
    print_table,
    printable,
    rank_records,
    request_options,
    write_bytes,
)
from llmperf.errors import PluginError, RunFailed, UserError
from llmperf.reporting import Column
from llmperf.types import PlannedTask, ProfileRecord, StepProfile
from llmperf.types.tracing import OperationKind

from llmperf_trace.step_parts import mean_profile, seconds_by_kind
from llmperf_trace.traced_steps import HOOK, Steps, check_profiler

EXAMPLES = """\b
Examples:
  llmperf profile
  llmperf profile default --devices 1 --steps 5
  llmperf profile default --set micro_batch=1 --json
  llmperf profile default --steps 12-14
"""
OPERATIONS = 12
"""Rows of the table of single operations; `profile.json` has all."""
PROFILE = "profile.json"
"""The profile in the run folder."""
LABEL = "profiled: the profiler slows the steps down, so that this is no measurement"
SHARE = 0.02
"""Two ways to say the same may differ by so much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindTime:
    """Time of a step in operations of one kind."""

    kind: OperationKind
    seconds: float
    """By the profile."""
    estimated_seconds: float | None
    """By the analytic estimate and the rates of the device; None without rates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The document of `llmperf profile --json`."""

    label: str
    """That this is no measurement."""
    folder: str
    """The run folder."""
    rates: str | None
    """Basis of the estimate: `measured` or `assumed` rates; None without rates."""
    kinds: tuple[KindTime, ...]
    """Longest first."""
    profile: StepProfile


@click.command("profile", epilog=EXAMPLES)
@request_options
@click.option("--steps", metavar="N|STEPS", type=Steps(), default="3", show_default=True,
              help="Profiled steps: so many after --warmup, or those with numbers such as 12-14.")  # fmt: skip
@click.option("--warmup", metavar="N", type=click.IntRange(0, 100), default=2, show_default=True,
              help="Steps before the profiled ones, if --steps is their number.")  # fmt: skip
@click.option("--rank", metavar="R", type=click.IntRange(min=0), default=0, show_default=True,
              help="The rank that is profiled.")  # fmt: skip
@click.option("--trace/--no-trace", default=True, help="Write a Chrome trace to the run folder.")
@headings_option
@click.option("-o", "--out", metavar="DIR", type=Folder(path_type=Path), default=Path("runs"), show_default=True,
              help="Folder for run folders.")  # fmt: skip
def command(
    steps: int | tuple[int, ...], warmup: int, rank: int, trace: bool, out: Path, as_json: bool, **options: Any
) -> None:
    """Show where the time of a step of CASE goes, by the framework's profiler, and against the estimate.

    The profiler slows the steps down: a profile is never a result.
    """
    if steps == 0:
        raise click.BadParameter("expected at least 1 step, found 0.", param_hint="'--steps'")
    numbers = tuple(range(warmup + 1, warmup + 1 + steps)) if isinstance(steps, int) else steps
    with planned_task(options) as planned:
        steps_of = f"{numbers[-1] - len(numbers)} + {len(numbers)} steps"
        click.echo(f"{steps_of} with rank {rank} under the profiler, in a folder of {out}", err=True)
        profile = profiled(planned, out, numbers, rank, trace)
    if as_json:
        print_json(profile)
    else:
        _print(profile)


def profiled(planned: PlannedTask, out: Path, steps: Sequence[int], rank: int, trace: bool) -> Profile:
    """Profile a planned run in a new folder below `out`; UserError without a profiler or the rank, else RunFailed."""
    plan = planned.plan
    check_profiler(planned, "tuning.framework")
    if rank >= plan.layout.world_size:
        raise UserError(f"--rank: expected at most {plan.layout.world_size - 1}, found {rank}")
    folder = planned.run(out, "profile", {"steps": steps, "rank": rank, "trace": trace}, LABEL).folder
    profiles = [record.profile for record in rank_records(folder, rank) if isinstance(record, ProfileRecord)]
    if not profiles:
        raise RunFailed(f"{folder}: rank {rank} recorded no profile")
    for wrong in filter(None, map(contradiction, profiles)):
        raise PluginError(f"{plan.spec.tuning.framework}: {HOOK}: {wrong}")
    profile = mean_profile(profiles)
    measured, work = seconds_by_kind(profile), expected_work(plan)
    estimated = (work[plan.layout.coordinate(rank, "pipeline")].seconds or None) if work else None
    kinds = sorted({*measured, *(estimated or ())}, key=lambda kind: -measured.get(kind, 0.0))
    document = Profile(
        label=LABEL,
        folder=str(folder),
        rates=None if estimated is None or plan.rates is None else plan.rates.basis,
        kinds=tuple(
            KindTime(
                kind=kind,
                seconds=measured.get(kind, 0.0),
                estimated_seconds=None if estimated is None else estimated.get(kind, 0.0),
            )
            for kind in kinds
        ),
        profile=profile,
    )
    write_bytes(folder / PROFILE, encode_pretty(document))
    return document


def contradiction(profile: StepProfile) -> str | None:
    """Where a profile contradicts itself, what was expected and found; None if it does not."""
    step, communication = profile.step_seconds, profile.communication_seconds
    parts = [("communication_seconds", communication, step), ("idle_seconds", profile.idle_seconds, step)]
    parts.append(("overlapped_seconds", profile.overlapped_seconds, communication))
    if profile.clock == "host":  # kernels of a device may run beside each other
        parts += [(f"operation {operation.name[:60]}", operation.seconds, step) for operation in profile.operations]
    for name, seconds, most in parts:
        if seconds > most * (1 + SHARE):
            return f"{name}: expected at most {most:g} s, found {seconds:g}"
    return None


def _print(document: Profile) -> None:
    def ms(seconds: float) -> str:
        return f"{1e3 * seconds:,.1f}"

    def share(seconds: float) -> str:
        return f"{100 * seconds / profile.step_seconds:.1f} %" if profile.step_seconds else "-"

    def columns(*titles: str, right: Sequence[int]) -> list[Column]:
        return [Column(title=title, importance=place, right=place in right) for place, title in enumerate(titles, 1)]

    profile = document.profile
    click.echo(f"{document.label}\n")
    mean = f"(rank {profile.rank}, mean of {profile.steps}, {profile.profiler})"
    click.echo(f"step {ms(profile.step_seconds)} ms {mean}")
    click.echo(
        f"communication {ms(profile.communication_seconds)} ms, {ms(profile.overlapped_seconds)} ms of it beside"
        f" computation; idle {ms(profile.idle_seconds)} ms ({share(profile.idle_seconds)})\n"
    )
    estimate = "estimated ms" if document.rates is None else f"estimated ms ({document.rates} rates)"
    rows: list[list[str | None]] = []
    for each in document.kinds:
        known = each.estimated_seconds
        gap = [None, None] if known is None else [ms(known), ms(each.seconds - known)]
        rows.append([each.kind, ms(each.seconds), share(each.seconds), *gap])
    print_table(columns("kind", "ms", "of the step", estimate, "gap ms", right=(2, 3, 4, 5)), rows)
    click.echo()
    print_table(
        columns("operation", "ms", "calls", "kind", right=(2, 3)),
        [
            [printable(each.name, " ")[:60], ms(each.seconds), f"{each.calls:,.0f}", each.kind]
            for each in profile.operations[:OPERATIONS]
        ],
    )
    for line in profile.notes:
        click.echo(f"\nnote: {printable(line, ' ')}")
    click.echo(f"\nrun folder: {printable(document.folder, ' ')}")
    for trace in sorted(Path(document.folder, "traces").glob(f"rank-{profile.rank:05d}*")):
        click.echo(f"Chrome trace: {printable(str(trace), ' ')}")
