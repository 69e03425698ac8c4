"""A framework plugin under check: what it plans and how it trains, each tried once for all checks."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmperf.cases.library import library_with_case, whole_library_for
from llmperf.cases.settings import from_command_line
from llmperf.errors import LlmperfError, UserError
from llmperf.planning.build import plan_only
from llmperf.planning.ready import worker_env
from llmperf.planning.states import Outcome, Selection, Site
from llmperf.planning.vendors import this_machine
from llmperf.plugins.discovery import find, names
from llmperf.plugins.faults import who
from llmperf.plugins.mending import unmet_problem
from llmperf.types import Plan, RunSpec, WorkerPlan

from llmperf_testing.check import ContractError, Skip
from llmperf_testing.drawn_case import LARGEST_SEED, drawn_case
from llmperf_testing.late_tokens import LateTokens
from llmperf_testing.observations import Trajectory
from llmperf_testing.subject import Subject, answered
from llmperf_testing.trials import Ends, Trained, expected, leave_with_an_error, train

ADAPTERS = ("contract.lora.rank=8", "contract.lora.dropout=0.0", "lr=6e-3")
"""Settings for a framework that trains adapters only; no dropout, which is no function of the seed alone.

Adapters learn slower than whole weights, and rounding does not grow in them: their rate is higher."""
ALONE = ("nodes=1", "devices=1")
EAGER = ("attention=eager", "steps=2", "contract.warmup_steps=1")
HOST = "cpu"
"""The vendor whose devices are used where the best devices here do not offer the framework's runtime."""


class FrameworkSubject(Subject):
    """One installed framework plugin, and the devices and the case that it is tried on.

    `case` is the name or file of a case whose model is trained, a small Llama that is drawn if None; `reference`
    names a framework whose losses are compared; model, data and contract are drawn from `seed`, itself drawn if None.
    UserError for invalid settings, a case, model or reference that cannot
    be used, or a vendor without a device here; PluginError if there is no such reference.
    """

    def __init__(
        self,
        name: str,
        vendor: str | None = None,
        settings: tuple[str, ...] = (),
        case: str | None = None,
        reference: str | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__("framework", name, vendor, settings)
        self.drawn = drawn_case(1 + secrets.randbelow(LARGEST_SEED) if seed is None else seed)
        from_command_line(settings)
        _check_documents(case, settings)
        if reference is not None and (missing := unmet_problem(find("framework", reference))) is not None:
            raise UserError(f"--reference {reference}: {missing}")
        self.reference = reference
        self._case = case
        self._title = f"case {case!r}" if case else "the default case"
        if vendor is not None:
            this_machine(vendor)
        self._folder = tempfile.TemporaryDirectory(prefix="llmperf-")
        self._adapters: tuple[str, ...] = ()

    @property
    def tried_on(self) -> str | None:
        """Name of the vendor on whose devices it is tried; None if nothing can be planned here."""
        try:
            return self.draft.machine.vendor
        except (ContractError, Skip):
            return None

    @property
    def seed(self) -> int | None:
        """Seed of its model, data and contract."""
        return self.drawn.seed

    @property
    def folder(self) -> Path:
        """For the files of its runs; goes with the subject."""
        return Path(self._folder.name)

    def close(self) -> None:
        """Let the runs go."""
        self._folder.cleanup()

    @property
    def draft(self) -> Outcome:
        """The case as it is, or with adapters for a framework that trains nothing else."""
        return self.once("draft", self._drafted)

    def _drafted(self) -> Outcome:
        plain = self.drafted()
        if self.vendor is None and self._foreign(plain) and HOST in names("vendor"):
            self.vendor = HOST
            plain = self.drafted()
        if any(one.where == "contract.lora" for one in plain.problems):
            with_adapters = self.drafted(*ADAPTERS)
            if not with_adapters.problems:
                self._adapters = ADAPTERS
                return with_adapters
        return plain

    def _foreign(self, drafted: Outcome) -> bool:
        """Check whether the best devices here do not offer the runtime that it needs."""
        needs = drafted.plan.worker.needs if drafted.plan is not None else None
        return needs is not None and needs.runtime not in drafted.machine.probe.offers.runtimes

    def drafted(self, *more: str, framework: str | None = None) -> Outcome:
        """A draft of the case with further settings, or for another framework; ContractError if the plugin raises."""
        assert self.fresh
        text, model = self.folder / "text.txt", self.folder / f"{self.drawn.model_name}.toml"
        text.write_text(self.drawn.text)
        model.write_text(self.drawn.model)
        data = (f"data.path={text}", "data.format=text", "data.repeat=true")
        settings = self.settings
        if framework is not None:  # options are of one framework only
            settings = tuple(setting for setting in settings if not setting.startswith("framework."))
        wanted = Selection(
            case=self._case or "default",
            framework=framework or self.name,
            settings=(*(() if self._case else (f"model={model}",)), *self.drawn.settings, *data, *settings, *more),
        )
        try:
            return plan_only(wanted, Site(vendor=self.vendor))
        except LlmperfError as error:
            if str(error).startswith(who(self.found)):
                raise ContractError(str(error)) from None
            raise Skip(f"{self._title} cannot be tried: {error}") from None
        except Exception as error:
            raise ContractError(f"planning {self._title} raised {type(error).__name__}: {error}") from error

    def answer(self, change: Any = None, spec: RunSpec | None = None) -> Any:
        """Its answer to `llmperf_plan_workers` for the case or another spec; another `change` asks again."""
        drafted = self.draft
        asked = drafted.spec if spec is None else spec
        return answered(self, change, "llmperf_plan_workers", spec=asked, probe=drafted.machine.probe)

    @property
    def worker(self) -> WorkerPlan:
        """Its part of the plan of the case."""
        return self.answer()  # type: ignore[no-any-return]

    def plan(self) -> Plan:
        """The plan of the case; Skip where there is none."""
        if self.draft.plan is None:
            raise Skip(f"{self._title} cannot be laid out here")
        return self.draft.plan

    def runnable(self) -> Plan:
        """The plan with its variables; Skip where it cannot run here."""
        self.plan()
        return _runnable(self.draft, self._title)

    @property
    def trained(self) -> Trained:
        """A real run of the case."""
        return self.once("trained", lambda: self._train(self.runnable(), "run"))

    @property
    def again(self) -> Trained:
        """A second run of the same plan."""
        return self.once("again", lambda: self._train(self.runnable(), "again"))

    def failing(self, fault: str) -> Trained:
        """A run of the same plan whose script fails as `llmperf_testing.programs.faulty_script` describes."""
        plan = self.runnable()
        assert plan.worker.script is not None
        program = ("{python}", "-m", "llmperf_testing.programs.faulty_script")
        command = (*program, fault, str(plan.worker.script.step_rank), "--", *plan.worker.script.command)
        script = replace(plan.worker.script, command=command)
        faulty = replace(plan, worker=replace(plan.worker, script=script))
        return self.once(fault, lambda: self._train(faulty, fault))

    def _train(self, plan: Plan, folder: str) -> Trained:
        plugins = self.draft.plugins
        assert plugins is not None
        return train(plan, plugins, self.folder / folder)

    @property
    def alone(self) -> Trained:
        """A real run of the same contract on one rank; Skip if the case has one rank here or cannot be planned so."""
        return self.once("alone", self._train_alone)

    def _train_alone(self) -> Trained:
        if self.plan().layout.world_size == 1:
            raise Skip(f"{self._title} has one rank here: there are no two to compare it with")
        return self._train(_runnable(self.drafted(*self._adapters, *ALONE), f"{self._title} on one rank"), "alone")

    @property
    def by_reference(self) -> Trained:
        """A real run of the same contract by the reference framework; Skip if it cannot run it here."""
        return self.once("by reference", self._train_reference)

    def _train_reference(self) -> Trained:
        drafted = self.drafted(*self._adapters, framework=self.reference)
        plan, plugins = _runnable(drafted, f"{self._title} by framework {self.reference!r}"), drafted.plugins
        assert plugins is not None
        return train(plan, plugins, self.folder / "reference")

    @property
    def ends(self) -> Ends:
        """How its ranks leave their trainer with an error after some steps; Skip if they run a script."""
        if self.worker.script is not None:
            raise Skip("its ranks run an external script, which has no trainer to leave")
        return self.once("ends", lambda: leave_with_an_error(self.runnable(), self.folder / "ends", self.late))

    @property
    def eager(self) -> tuple[Plan, Ends]:
        """Two steps of the case on one rank with `attention=eager`; Skip where that cannot run here."""
        return self.once("eager", self._step_eagerly)

    def _step_eagerly(self) -> tuple[Plan, Ends]:
        title = f"{self._title} with attention=eager"
        plan = _runnable(self.drafted(*self._adapters, *ALONE, *EAGER), title)
        return plan, leave_with_an_error(plan, self.folder / "eager", None)

    @property
    def late(self) -> LateTokens | None:
        """The tokens that the kit draws in the second training; None where no reference gives all losses."""
        contract = self.draft.spec.contract
        known = contract.packing == "packed" and contract.lora is None and contract.precision == "fp32"
        return LateTokens(seed=self.drawn.seed, first_step=self.drawn.late_tokens_from) if known else None

    def expected(self, steps: int) -> Trajectory:
        """Reference trajectory of the first steps of the case; Skip if no reference covers it."""
        return self.once(("expected", steps), lambda: expected(self.plan(), self.folder / "expected", steps, None))

    def expected_late(self, steps: int) -> Trajectory:
        """The same with the tokens that the kit draws."""
        where = self.folder / "expected-late"
        return self.once(("expected late", steps), lambda: expected(self.plan(), where, steps, self.late))

    def losses(self) -> Mapping[int, float]:
        """Mean of the ranks' losses at each step of the run."""
        return self.trained.losses


def _check_documents(case: str | None, settings: tuple[str, ...]) -> None:
    """UserError if the case, or the model of the case or of the settings, is unknown or invalid."""
    model, where = None, "contract.model"
    if case is not None:
        model = library_with_case(case).case(case).contract.model
        where = f"{case}: contract.model"
    for setting in from_command_line(settings):
        if setting.path == "contract.model":
            model, where = str(setting.value), "contract.model"
    if model is not None:
        whole_library_for("models", model).model(model, where)


def _runnable(drafted: Outcome, what: str) -> Plan:
    """A draft's plan with its variables; Skip where it cannot run here."""
    if drafted.problems or drafted.plan is None:
        problem = drafted.problems[0]
        raise Skip(f"{what} cannot run here: {problem.where}: {problem.message}")
    assert drafted.plugins is not None
    return replace(drafted.plan, env=worker_env(drafted.plan, drafted.plugins))
