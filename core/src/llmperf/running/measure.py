"""From a draft to checked results: the whole of `llmperf run` but its printing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.errors import Refused, UserError
from llmperf.files.json_files import save, write_bytes
from llmperf.planning.build import now, run_id
from llmperf.planning.draft import Draft
from llmperf.runfolder.filenames import REPORT, RESULT

if TYPE_CHECKING:
    from llmperf.plugins.loading import Plugins
    from llmperf.types.result import Result


def refuse_problems(draft: Draft) -> None:
    """Refused with every problem of a draft, a line each, if it has any."""
    if draft.problems or draft.plan is None:
        told = (f"{problem.where}: {problem.message} [{problem.code}]" for problem in draft.problems)
        raise Refused(f"case {draft.spec.case} cannot run here:", told)
    if not draft.machine.here:
        raise UserError("a machine named with --on can be planned for, not run on")


def measure(draft: Draft, out: Path, repeat: int, warn: Callable[[str], None]) -> Iterator[tuple[Path, Result]]:
    """Run a draft's plan `repeat` times, each in a folder of its own below `out`; stops after one that is interrupted.

    The observers of the loaded plugins follow each run; `warn` gets a line for each thing that disturbs it. Raises
    UserError before anything is started if the draft has problems or the folder cannot be written.
    """
    from llmperf.plugins.faults import printing_aside
    from llmperf.running.launched import run_plan
    from llmperf.running.observers import Observers

    refuse_problems(draft)
    assert draft.plan is not None
    assert draft.plugins is not None
    for _ in range(repeat):
        name = run_id(draft.spec.case, draft.plan.vendor, draft.spec.tuning.framework)
        plan = replace(draft.plan, run_id=name, created=now())
        folder = out / plan.run_id
        observers, result = Observers(draft.plugins, warn), None
        try:
            with printing_aside():  # observers may print from threads of their own
                result = check(run_plan(plan, folder, draft.plugins, observers, warn), folder, draft.plugins)
        finally:
            observers.ended(result, folder)
        yield folder, result
        if result.status == "aborted":
            return


def check(result: Result, folder: Path, plugins: Plugins) -> Result:
    """The result with the findings of the core and of the run's plugins in it, saved beside its Markdown report.

    They are those that `validate` gives on the same folder, of the records too.
    """
    from llmperf.reporting.markdown import render_markdown
    from llmperf.validation.check import findings
    from llmperf.validation.run_folder import recorded_findings

    checked = replace(result, findings=(*findings(result, plugins), *recorded_findings(folder)))
    save(folder / RESULT, checked)
    write_bytes(folder / REPORT, render_markdown(checked).encode())
    return checked
