"""A framework plugin under check: what it plans and how it trains, as a normal run and with ranks that leave."""

from __future__ import annotations

import secrets
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from llmperf import this_machine
from llmperf.cases.library import library_with_case, whole_library_for
from llmperf.cases.settings import from_command_line
from llmperf.errors import LlmperfError, UserError
from llmperf.files import json_files
from llmperf.launching.agent import rank_environment
from llmperf.launching.run_here import free_port
from llmperf.planning.build import plan_only
from llmperf.planning.ready import worker_env
from llmperf.planning.states import Outcome, Selection, Site
from llmperf.plugins.discovery import find, names
from llmperf.plugins.faults import who
from llmperf.plugins.loading import Plugins
from llmperf.plugins.mending import unmet_problem
from llmperf.runfolder import filenames
from llmperf.runfolder.create import create_run_folder
from llmperf.runfolder.reader import RecordFile, by_step
from llmperf.running.launched import run_plan, save_result
from llmperf.types import Plan, Result, RunSpec, StepRecord, WorkerPlan

from llmperf_testing.check import ContractError, Skip
from llmperf_testing.drawn_case import LARGEST_SEED, LateTokens, drawn_case
from llmperf_testing.observations import RankEnd, Trajectory
from llmperf_testing.subject import Child, Subject, kept, observe

ADAPTERS = ("contract.lora.rank=8", "contract.lora.dropout=0.0", "lr=6e-3")
"""Settings for a framework that trains adapters only: they learn slower, so at a higher rate, and without dropout."""
ALONE = ("nodes=1", "devices=1")
EAGER = ("attention=eager", "steps=2", "contract.warmup_steps=1")
HOST = "cpu"
"""The vendor whose devices are used where the best devices here do not offer the framework's runtime."""
STALL_SECONDS = 60.0
STARTUP_SECONDS = 240.0
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")}
"""For operations of small models, whose threads mostly wait on a busy host."""
SET_SECONDS = 0.005
SAMPLE_SECONDS = 1e6
"""Trials need no device readings."""


class FrameworkSubject(Subject):
    """One installed framework plugin, and the devices and the case that it is tried on.

    `case` is a name or file, a small drawn Llama by default; `reference` a framework whose losses are compared; `seed`
    draws model, data and contract. UserError for invalid settings, PluginError without such a reference.
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
        self.seed = 1 + secrets.randbelow(LARGEST_SEED) if seed is None else seed
        self.drawn = drawn_case(self.seed)
        from_command_line(settings)
        model, where = None, "contract.model"
        if case is not None:
            model = library_with_case(case).case(case).contract.model
            where = f"{case}: contract.model"
        for setting in from_command_line(settings):
            if setting.path == "contract.model":
                model, where = str(setting.value), "contract.model"
        if model is not None:
            whole_library_for("models", model).model(model, where)
        if reference is not None and (missing := unmet_problem(find("framework", reference))) is not None:
            raise UserError(f"--reference {reference}: {missing}")
        self.reference = reference
        self._case = case
        self._title = f"case {case!r}" if case else "the default case"
        if vendor is not None:
            this_machine(vendor)
        self._folder = tempfile.TemporaryDirectory(prefix="llmperf-")
        self.folder = Path(self._folder.name)
        """For the files of its runs; goes with the subject."""
        self._adapters: tuple[str, ...] = ()

    @property
    def tried_on(self) -> str | None:
        """Name of the vendor on whose devices it is tried; None if nothing can be planned here."""
        try:
            return self.draft.machine.vendor
        except (ContractError, Skip):
            return None

    def close(self) -> None:
        """Let the runs go."""
        self._folder.cleanup()

    @kept
    def draft(self) -> Outcome:
        """The case as it is, or with adapters for a framework that trains nothing else."""
        plain = self.drafted()
        needs = None if plain.plan is None else plain.plan.worker.needs
        foreign = needs is not None and needs.runtime not in plain.machine.probe.offers.runtimes
        if self.vendor is None and foreign and HOST in names("vendor"):
            self.vendor = HOST
            plain = self.drafted()
        if any(one.where == "contract.lora" for one in plain.problems):
            with_adapters = self.drafted(*ADAPTERS)
            if not with_adapters.problems:
                self._adapters = ADAPTERS
                return with_adapters
        return plain

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
        asked = self.draft.spec if spec is None else spec
        return self.answered(change, "llmperf_plan_workers", spec=asked, probe=self.draft.machine.probe)

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

    def _train(self, plan: Plan, folder: str, drafted: Outcome | None = None) -> Trained:
        plugins = (drafted or self.draft).plugins
        assert plugins is not None
        return train(plan, plugins, self.folder / folder)

    @kept
    def trained(self) -> Trained:
        """A real run of the case."""
        return self._train(self.runnable(), "run")

    @kept
    def again(self) -> Trained:
        """A second run of the same plan."""
        return self._train(self.runnable(), "again")

    def failing(self, fault: str) -> Trained:
        """A run of the same plan whose script fails as `llmperf_testing.programs.faulty_script` describes."""
        plan = self.runnable()
        assert plan.worker.script is not None
        program = ("{python}", "-m", "llmperf_testing.programs.faulty_script")
        command = (*program, fault, str(plan.worker.script.step_rank), "--", *plan.worker.script.command)
        script = replace(plan.worker.script, command=command)
        faulty = replace(plan, worker=replace(plan.worker, script=script))
        return self.once(fault, lambda: self._train(faulty, fault))

    @kept
    def alone(self) -> Trained:
        """A real run of the same contract on one rank; Skip if the case has one rank here or cannot be planned so."""
        if self.plan().layout.world_size == 1:
            raise Skip(f"{self._title} has one rank here: there are no two to compare it with")
        return self._train(_runnable(self.drafted(*self._adapters, *ALONE), f"{self._title} on one rank"), "alone")

    @kept
    def by_reference(self) -> Trained:
        """A real run of the same contract by the reference framework; Skip if it cannot run it here."""
        drafted = self.drafted(*self._adapters, framework=self.reference)
        plan = _runnable(drafted, f"{self._title} by framework {self.reference!r}")
        return self._train(plan, "reference", drafted)

    @kept
    def ends(self) -> Ends:
        """How its ranks leave their trainer with an error after some steps; Skip if they run a script."""
        if self.worker.script is not None:
            raise Skip("its ranks run an external script, which has no trainer to leave")
        return leave_with_an_error(self.runnable(), self.folder / "ends", self.late)

    @kept
    def eager(self) -> tuple[Plan, Ends]:
        """Two steps of the case on one rank with `attention=eager`; Skip where that cannot run here."""
        title = f"{self._title} with attention=eager"
        plan = _runnable(self.drafted(*self._adapters, *ALONE, *EAGER), title)
        return plan, leave_with_an_error(plan, self.folder / "eager", None)

    @property
    def late(self) -> LateTokens | None:
        """The tokens that the kit draws in the second training; None where no reference gives all losses."""
        contract = self.draft.spec.contract
        known = contract.packing == "packed" and contract.lora is None and contract.precision == "fp32"
        return LateTokens(seed=self.drawn.seed, first_step=self.drawn.late_tokens_from) if known else None

    def expected(self, steps: int, *, late: bool = False) -> Trajectory:
        """Reference trajectory of the first steps of the case, `late` with the kit's tokens; Skip if none covers it."""
        where = self.folder / ("expected-late" if late else "expected")
        tokens = self.late if late else None
        return self.once((where, steps), lambda: expected(self.plan(), where, steps, tokens))


def _runnable(drafted: Outcome, what: str) -> Plan:
    """A draft's plan with its variables; Skip where it cannot run here."""
    if drafted.problems or drafted.plan is None:
        problem = drafted.problems[0]
        raise Skip(f"{what} cannot run here: {problem.where}: {problem.message}")
    assert drafted.plugins is not None
    return replace(drafted.plan, env=worker_env(drafted.plan, drafted.plugins))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """The outcome of a real run."""

    plan: Plan
    """The plan that was run."""
    result: Result
    steps: dict[int, list[StepRecord]]
    """The records of all ranks, by step."""
    seconds: float
    """Wall time of the run as a whole."""

    @property
    def losses(self) -> dict[int, float]:
        """Mean of the ranks' losses, by step; none for a step without."""
        reported = {step: [one.loss for one in records if one.loss is not None] for step, records in self.steps.items()}
        return {step: statistics.fmean(losses) for step, losses in reported.items() if losses}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """How the ranks of a plan left with an error."""

    ranks: tuple[RankEnd, ...]
    clock_was_set: bool = False
    """The host's clock was set in the meantime."""

    @property
    def losses(self) -> list[float]:
        """Mean of the ranks' losses, by step."""
        columns = zip(*(one.losses for one in self.ranks), strict=True)
        return [
            statistics.fmean(reported)
            for column in columns
            if (reported := [loss for loss in column if loss is not None])
        ]


def train(plan: Plan, plugins: Plugins, run: Path) -> Trained:
    """Run a plan in a new folder as `llmperf run` does; KeyboardInterrupt if it was interrupted."""
    began = time.monotonic()
    patient = replace(plan, stall_seconds=STALL_SECONDS, startup_seconds=STARTUP_SECONDS)
    result = run_plan(patient, run, plugins, save_result, sample_seconds=SAMPLE_SECONDS)
    if result.status == "aborted":  # by Ctrl-C, which is meant for all checks
        raise KeyboardInterrupt
    steps = by_step([r for r in RecordFile(path) if isinstance(r, StepRecord)] for path in filenames.record_files(run))
    return Trained(plan=patient, result=result, steps=steps, seconds=time.monotonic() - began)


def leave_with_an_error(plan: Plan, run: Path, late: LateTokens | None) -> Ends:
    """Build a plan's trainer on each rank, take its steps and leave; ContractError if a rank does not end well."""
    create_run_folder(run, plan)
    lead, port, started = wall_clock_lead(), free_port(), []
    deadline = time.monotonic() + STARTUP_SECONDS
    try:
        for rank in range(plan.layout.world_size):
            env = rank_environment(run, plan, 0, rank, "127.0.0.1", port)
            given = {"run": str(run), "late": late and asdict(late)}
            started.append(Child("rank", given, run / f"end-{rank}.json", filenames.log_path(run, rank), env))
        for child in started:
            child.wait(deadline)
    finally:
        for child in started:
            child.kill()
    ranks = tuple(child.seen(RankEnd) for child in started)
    return Ends(ranks=ranks, clock_was_set=abs(wall_clock_lead() - lead) > SET_SECONDS)


def wall_clock_lead() -> float:
    """Seconds by which the wall clock is ahead of the monotonic one: another value later means that it was set."""
    readings = [(time.monotonic(), time.time(), time.monotonic()) for _ in range(9)]
    before, wall, after = min(readings, key=lambda reading: reading[2] - reading[0])  # with no pause in between
    return wall - (before + after) / 2


def expected(plan: Plan, run: Path, steps: int, late: LateTokens | None) -> Trajectory:
    """Reference trajectory of the first steps of a plan, in a process with one thread; Skip if none covers it."""
    run.mkdir()
    json_files.save(run / filenames.PLAN, plan)
    given = {"plan": str(run / filenames.PLAN), "steps": steps, "late": late and asdict(late)}
    found = observe("expected", given, Trajectory, seconds=STARTUP_SECONDS, env=ONE_THREAD)
    if found.unknown is not None:
        raise Skip(found.unknown)
    return found
