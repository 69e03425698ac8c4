"""One run from plan to checked results: the whole of `llmperf run` but its printing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from llmperf.accounting.precisions import products_dtype
from llmperf.cases.settings import setting_text
from llmperf.errors import Refused, UserError
from llmperf.files import json_files
from llmperf.files.text import utc_time
from llmperf.measuring.processes import left_of_run
from llmperf.planning.build import plan_on, run_id
from llmperf.planning.nodes import nodes_wanted, reach
from llmperf.planning.ready import ready, with_peak
from llmperf.planning.states import Outcome, Planned, Request, Site
from llmperf.planning.vendors import Machine
from llmperf.plugins.discovery import discover
from llmperf.plugins.faults import printing_aside
from llmperf.plugins.loading import Plugins, load_for, plugins_for
from llmperf.plugins.own_packages import of_this_project
from llmperf.reporting.markdown import render_results
from llmperf.runfolder import filenames
from llmperf.runfolder.contents import RunRecords
from llmperf.runfolder.create import load_plan, release
from llmperf.runfolder.endings import Ending, read_ending
from llmperf.running.launched import ended, run_plan, save_result
from llmperf.running.observers import Observers
from llmperf.types.commands import PlannedChoice, RunChoice
from llmperf.types.devices import Dtype
from llmperf.types.plan import Plan
from llmperf.types.result import Finding, Result
from llmperf.validation.catalogue import Catalogue
from llmperf.validation.check import findings
from llmperf.validation.run_folder import recorded_findings


def startable(outcome: Outcome) -> Planned:
    """The outcome of planning, if it can be run on this machine; otherwise Refused with every problem, a line each."""
    if sys.platform != "linux":
        raise UserError(f"expected Linux to train on, found {sys.platform}; results can be read and estimated here")
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
    before: Sequence[Callable[[Planned], None]] = (),
    name: str | None = None,
) -> Iterator[tuple[Path, Result]]:
    """Run a plan `repeat` times, each in its own folder below `out`; stops after an interrupted run.

    What is called `before` each run may wait. `warn` gets a line for each disturbance; `show` gets each saved result
    with the findings of this project's rules, before those of other packages, one of which may hang. A single run may
    have a `name`.
    """
    launcher, plugins = planned.machine.launcher, planned.plugins
    named = ((plugin.role, plugin.name) for plugin in planned.plan.plugins)
    ours = plugins_for(named, [found for found in discover() if of_this_project(found)])
    for number in range(repeat):
        for wait in before:
            wait(planned)
        if before and number == 0:
            planned = with_peak(planned)
        folder = out / (name or run_id(planned.spec.case, planned.plan.vendor, planned.spec.tuning.framework))
        plan = replace(planned.changed().plan, run_id=folder.name, created=utc_time())
        logs = [each for opened in planned.options.followers for each in opened()]
        observers, result = Observers(plugins, warn, logs), None
        with printing_aside():  # observers may print, from threads of their own
            try:
                result, recorded = run_plan(plan, folder, plugins, measured, observers, warn, launcher=launcher)
                result = check(result, folder, ours, recorded)
            finally:
                observers.ended(result, folder)
        show(folder, result)
        with printing_aside():
            result = check(result, folder, plugins, recorded)
        yield folder, result
        if result.status == "aborted":
            return


def measured(records: RunRecords) -> tuple[Result, list[Finding]]:
    """The saved result of a run that has ended, and the findings among its records."""
    return save_result(records), recorded_findings(records)


def check(result: Result, folder: Path, plugins: Plugins, recorded: Sequence[Finding]) -> Result:
    """The result with the findings of all rules and those `recorded`, saved beside its Markdown report."""
    checked = replace(result, findings=(*findings("result", result, Catalogue(plugins)), *recorded))
    json_files.save(folder / filenames.RESULT, checked)
    json_files.write_bytes(folder / filenames.REPORT, render_results([checked]).encode())
    return checked


def concluded(run: Path, plan: Plan, ending: Ending) -> Result:
    """The checked result of a run folder, made from its records and its ending, all saved there."""
    plugins = plugins_for((plugin.role, plugin.name) for plugin in plan.plugins)
    result, recorded = measured(ended(run, plan, ending))
    return check(result, run, plugins, recorded)


LEFT_SECONDS = 20.0
"""Time for the processes of a run whose llmperf was killed to end, before another run begins on this machine."""


def chosen(request: Request, choice: RunChoice) -> Request:
    """The request for one run of several; all that a choice does not say stays as in `request`."""
    settings = tuple(setting_text(path, value) for path, value in choice.settings.items())
    return Request(
        replace(request.selection, case=choice.case, framework=choice.framework, settings=settings),
        replace(request.site, vendor=choice.vendor or request.site.vendor, devices=choice.devices),
        request.options,
    )


class Series:
    """Implements `llmperf.types.RunSeries`."""

    def __init__(
        self,
        request: Request,
        warn: Callable[[str], None],
        before: Sequence[Callable[[Planned], None]] = (),
        begin: Callable[[int, int, float | None], None] = lambda number, runs, seconds_left: None,
    ) -> None:
        """`request` has what is the same for all runs. `warn` gets a line for each disturbance; what is called
        `before` each run may wait; `begin` gets the next run.
        """
        self._asked: tuple[Site, int] | None = None
        self._machine: Machine | None = None
        self._common = request
        self._warn = warn
        self._before = before
        self.begin = begin
        self._refused_peaks: dict[tuple[str, Dtype], str] = {}
        self._prepared: Planned | None = None

    def close(self) -> None:
        """Give back what the launcher has taken from its engine; the next run asks for nodes again."""
        machine, self._machine = self._machine, None
        if machine is not None:
            machine.close()

    def plan(self, choice: RunChoice, *, must_run: bool = False) -> PlannedChoice:
        """Plan a run without its peak; Refused with every problem if it `must_run` and cannot."""
        outcome = self._planned(choice)
        if must_run:
            startable(outcome)
        return PlannedChoice(choice=choice, plan=outcome.plan, problems=outcome.problems, probe=outcome.machine.probe)

    def _planned(self, choice: RunChoice) -> Outcome:
        """Plan on the same nodes as last time if the same are asked for."""
        selection, site, options = chosen(self._common, choice)
        asked = (site, nodes_wanted(selection, site))
        if self._machine is None or self._asked != asked:
            self.close()
            first, self._asked = self._asked is None, asked
            self._machine = reach(site if first else replace(site, opened=None), asked[1])
        return plan_on(self._machine, selection, site, options)

    def prepare(self, choice: RunChoice) -> Plan:
        """Plan the next run; UserError if it cannot run. A peak that could not be found is not asked for again."""
        planned = ready(startable(self._planned(choice)), self._refused_peaks)
        key = planned.machine.vendor, products_dtype(planned.spec.contract)
        for wait in self._before:
            wait(planned)
        if self._before:
            planned = planned if key in self._refused_peaks else with_peak(planned)
        if planned.plan.peak_problem is not None and not planned.spec.tuning.emulate_precision:
            self._refused_peaks.setdefault(key, planned.plan.peak_problem)
        name = run_id(planned.spec.case, planned.plan.vendor, planned.spec.tuning.framework)
        self._prepared = replace(planned, plan=replace(planned.plan, run_id=name))
        return self._prepared.plan

    def run(self, plan: Plan, folder: Path) -> Result:
        """Run the prepared plan below a folder; after a failure, the launcher is asked for nodes again."""
        planned, result = self._prepared, None
        assert planned is not None
        assert planned.plan is plan
        try:
            _, result = next(measure(planned, folder, 1, self._warn, name=plan.run_id))
        finally:
            if result is None or result.status != "complete":
                self.close()
        return result

    def recover(self, folder: Path) -> Result | None:
        """The checked result of a run whose llmperf was killed, if the run itself had come to its end by then."""
        deadline = time.monotonic() + LEFT_SECONDS
        while left_of_run(folder.name):
            if time.monotonic() > deadline:
                self._warn(f"processes of run {folder.name}, whose controller was killed, still run on this machine")
                break
            time.sleep(0.1)
        try:
            result, ending = None, read_ending(folder) if folder.exists() else None
            if (folder / filenames.RESULT).exists():
                result = json_files.load(folder / filenames.RESULT, Result)
            if result is not None or (ending is not None and ending.cause in ("ended", "hung")):
                plan = load_plan(folder)
                records = ended(folder, plan)
                result = result or save_result(records)
                if result.status != "aborted":
                    plugins = load_for(plan.vendor, plan.spec.tuning.framework)
                    return check(result, folder, plugins, recorded_findings(records))
        except UserError as error:
            self._warn(f"{folder}: cannot be used: {error}")
        release(folder)
        return None
