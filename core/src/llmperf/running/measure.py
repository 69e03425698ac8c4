"""One run from plan to checked results: the whole of `llmperf run` but its printing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.errors import Refused, UserError
from llmperf.files.json_files import save, write_bytes
from llmperf.planning.build import now, run_id
from llmperf.planning.ready import with_peak
from llmperf.planning.states import Outcome, Planned
from llmperf.runfolder.filenames import REPORT, RESULT

if TYPE_CHECKING:
    from llmperf.plugins.loading import Plugins
    from llmperf.types.result import Finding, Result


def startable(outcome: Outcome) -> Planned:
    """The outcome of planning, if it can be run on this machine.

    Refused with every problem, a line each, if there are any; UserError if the machine was named with `--on`.
    """
    if not isinstance(outcome, Planned):
        lines = (f"{problem.where}: {problem.message} [{problem.code}]" for problem in outcome.problems)
        raise Refused(f"case {outcome.spec.case} cannot run here:", lines)
    if not outcome.machine.here:
        raise UserError("a machine named with --on can be planned for, not run on")
    outcome.changed()  # raises UserError before anything starts
    return outcome


def measure(
    planned: Planned,
    out: Path,
    repeat: int,
    warn: Callable[[str], None],
    show: Callable[[Path, Result], None] = lambda folder, result: None,
    ready: Callable[[Planned], None] | None = None,
) -> Iterator[tuple[Path, Result]]:
    """Run a plan `repeat` times, each in its own folder below `out`; stops after an interrupted run.

    Before each run, `ready` may wait until the machine is. The first time, a peak that could not be found is asked for
    again; the later runs have the same peak, or none for the same reason.

    The observers of the loaded plugins follow each run; `warn` gets a line for each thing that disturbs it. `show` gets
    each result with the findings of the core's rules, saved, before the rules of plugins are applied: one that hangs
    ends the command. Raises UserError before anything is started if the folder cannot be written.
    """
    for number in range(repeat):
        if ready is not None:
            ready(planned)
            planned = with_peak(planned) if number == 0 else planned
        name = run_id(planned.spec.case, planned.plan.vendor, planned.spec.tuning.framework)
        result = measure_in(out / name, planned, warn, show)
        yield out / name, result
        if result.status == "aborted":
            return


def measure_in(
    folder: Path, planned: Planned, warn: Callable[[str], None], show: Callable[[Path, Result], None]
) -> Result:
    """Run a plan once in a new folder, whose name becomes the name of the run; otherwise as `measure`."""
    from llmperf.plugins.faults import printing_aside
    from llmperf.plugins.loading import Plugins
    from llmperf.running.launched import run_plan
    from llmperf.running.loggers import opened_logs
    from llmperf.running.observers import Observers
    from llmperf.validation.run_folder import recorded_findings

    plan = replace(planned.changed().plan, run_id=folder.name, created=now())
    logs = opened_logs(planned.plugins, planned.resolved.options.logs)
    observers, result = Observers(planned.plugins, warn, logs), None
    with printing_aside():  # observers may print, from threads of their own
        try:
            launcher = planned.machine.launcher
            result = run_plan(plan, folder, planned.plugins, observers, warn, launcher=launcher)
            recorded = recorded_findings(folder)
            result = check(result, folder, Plugins(), recorded)
        finally:
            observers.ended(result, folder)
    show(folder, result)
    with printing_aside():
        return check(result, folder, planned.plugins, recorded)


def check(result: Result, folder: Path, plugins: Plugins, recorded: tuple[Finding, ...]) -> Result:
    """The result with its findings, saved beside its Markdown report.

    The findings come from the core's rules and those of the given plugins; those `recorded` are what is wrong among the
    records. With the plugins of the run, they are the same as `validate` reports for the folder.
    """
    from llmperf.reporting.markdown import render_results
    from llmperf.validation.catalogue import Catalogue
    from llmperf.validation.check import findings

    checked = replace(result, findings=(*findings("result", result, Catalogue(plugins)), *recorded))
    save(folder / RESULT, checked)
    write_bytes(folder / REPORT, render_results([checked]).encode())
    return checked
