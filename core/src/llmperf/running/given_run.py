"""A case and its model as another document states them, planned and trained for some steps on this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.cases.fields import check_table
from llmperf.cases.model_facts import check_model
from llmperf.errors import UserError
from llmperf.files.json_files import builtins
from llmperf.planning import ready
from llmperf.planning.build import plan_only, plan_run
from llmperf.planning.states import Planned, Request, Selection, Site
from llmperf.planning.user_config import own_config
from llmperf.results.run_result import result_of
from llmperf.running.launched import Following, run_plan
from llmperf.types.models import Model
from llmperf.types.spec import Case, Contract, Tuning

if TYPE_CHECKING:
    from llmperf.types.devices import PeakFlops
    from llmperf.types.plan import Plan
    from llmperf.types.plan_checks import Problem
    from llmperf.types.result import Result


class GivenRun:
    """A run of facts that another document states, such as a submission, on the user's own vendor and environment."""

    def __init__(self, case: Case, model: Model, vendor: str | None = None) -> None:
        """Plan it quickly, without peak and environment; UserError if it cannot run."""
        self.check(case, model)
        config = own_config()
        default = config.tables.default
        python = None if default.environment is None else config.python(default.environment)
        site = Site(vendor=default.vendor or vendor, python=None if python is None else (str(python[0]), python[1]))
        self._request = Request(Selection(case.name, given=(case, model)), site)
        outcome = plan_only(*self._request)
        self.plan: Plan | None = outcome.plan
        self.problems: tuple[Problem, ...] = outcome.problems
        """Why it cannot run here; empty if it can."""
        self.device_model = outcome.machine.probe.devices[0].model
        self.divisible = outcome.machine.divisible
        """Whether ranks share a device of this vendor."""
        self._planned: Planned | None = None

    @staticmethod
    def check(case: Case, model: Model) -> None:
        """UserError for facts beyond the bounds of cases and models."""
        check_table(builtins(case.contract), Contract, "contract")
        check_table(builtins(model), Model, "model")
        check_table(builtins(case.tuning), Tuning, "tuning")
        check_model(model, "model")

    def prepare(self, last_step: int) -> Plan:
        """The plan, with its peak and environment, that stops after a number of steps; UserError if it cannot run."""
        planned = ready.ready(plan_run(*self._request))
        if not isinstance(planned, Planned):
            planned.machine.close()
            raise UserError(planned.problems[0].message)
        plan = replace(planned.plan, purpose="rerun", last_step=last_step)
        self._planned = replace(planned, plan=plan)
        return plan

    def train(self, folder: Path, following: Following) -> Result:
        """Train the prepared plan in a new run folder; its result from the second step on, not written."""
        assert self._planned is not None
        plan, launcher = self._planned.plan, self._planned.machine.launcher
        plugins = self._planned.plugins
        records = run_plan(plan, folder, plugins, lambda ended: ended, following, launcher=launcher)
        return result_of(replace(records, plan=replace(plan, purpose="run")))

    def peak_again(self) -> PeakFlops | None:
        """The measured peak of the prepared plan, measured anew; None if its vendor does not measure."""
        return None if self._planned is None else ready.peak_again(self._planned.plan, self._planned.plugins)

    def close(self) -> None:
        """Give back what was taken for the run."""
        if self._planned is not None:
            self._planned.machine.close()
