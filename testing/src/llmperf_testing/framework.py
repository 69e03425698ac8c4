"""A framework plugin that is checked: what it plans and how it trains, tried once for all checks."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmperf.cases.settings import from_command_line
from llmperf.errors import LlmperfError
from llmperf.planning.build import draft
from llmperf.planning.draft import Draft
from llmperf.planning.environment import worker_env
from llmperf.planning.request import Request
from llmperf.planning.vendors import this_machine
from llmperf.plugins.discovery import names
from llmperf.plugins.faults import who
from llmperf.types import Plan, RunSpec, WorkerPlan

from llmperf_testing.check import ContractError, Skip
from llmperf_testing.subject import Subject, answered
from llmperf_testing.trials import Ends, Trained, leave_with_an_error, train

TEXT = "the quick brown fox jumps over the lazy dog. " * 400
"""What is trained on: so little that any model learns it within steps."""
CONTRACT = (
    "model=llama_tiny",
    "dataset=repeated-sentence",
    "seq_len=64",
    "global_batch=4",
    "micro_batch=2",
    "steps=12",
    "warmup_steps=1",
    "lr=5e-3",
)
ADAPTERS = ("contract.lora.rank=8", "contract.lora.dropout=0.0")
"""What the default case needs for a framework that trains adapters only; dropout is no function of the seed alone."""
ALONE = ("nodes=1", "devices=1")
HOST = "cpu"
"""The vendor that it is tried on where the best devices here are not for its runtime."""


class FrameworkSubject(Subject):
    """One installed framework plugin, and the devices that it is tried on.

    UserError for settings that make no sense, or a vendor that was named and has no device here.
    """

    def __init__(self, name: str, vendor: str | None = None, settings: tuple[str, ...] = ()) -> None:
        super().__init__("framework", name, vendor, settings)
        from_command_line(settings)
        if vendor is not None:
            this_machine(vendor)
        self._folder = tempfile.TemporaryDirectory(prefix="llmperf-check-")
        self._adapters: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """For the files of its runs; goes with the subject."""
        return Path(self._folder.name)

    def close(self) -> None:
        """Let the runs go."""
        self._folder.cleanup()

    @property
    def draft(self) -> Draft:
        """The default case on a tiny model: as it is, or with adapters where it trains nothing else."""
        return self.once("draft", self._drafted)

    def _drafted(self) -> Draft:
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

    def _foreign(self, drafted: Draft) -> bool:
        """Whether the best devices here cannot be used by the runtime that it needs."""
        needs = drafted.plan.needs if drafted.plan is not None else None
        return needs is not None and needs.runtime not in drafted.machine.probe.offers.runtimes

    def drafted(self, *more: str) -> Draft:
        """A draft of the default case with further settings; ContractError if the plugin raises."""
        assert self.fresh
        text = self.folder / "text.txt"
        text.write_text(TEXT)
        data = (f"data.path={text}", "data.format=text", "data.repeat=true")
        wanted = Request(
            case="default",
            vendor=self.vendor,
            framework=self.name,
            settings=(*CONTRACT, *data, *self.settings, *more),
            sketch=True,
        )
        try:
            return draft(wanted)
        except LlmperfError as error:
            if str(error).startswith(who(self.found)):
                raise ContractError(str(error)) from None
            raise Skip(f"the default case cannot be tried: {error}") from None
        except Exception as error:
            raise ContractError(f"planning the default case raised {type(error).__name__}: {error}") from error

    def answer(self, change: Any = None, spec: RunSpec | None = None) -> Any:
        """Its answer to `llmperf_plan_workers` for the default case or another spec; another `change` asks again."""
        drafted = self.draft
        asked = drafted.spec if spec is None else spec
        return answered(self, change, "llmperf_plan_workers", spec=asked, probe=drafted.machine.probe)

    @property
    def worker(self) -> WorkerPlan:
        """Its part of the plan of the default case."""
        return self.answer()  # type: ignore[no-any-return]

    def plan(self) -> Plan:
        """The plan of the default case; Skip where there is none."""
        if self.draft.plan is None:
            raise Skip("the default case cannot be laid out here")
        return self.draft.plan

    def runnable(self) -> Plan:
        """The plan with its variables; Skip where it cannot run here."""
        self.plan()
        return _runnable(self.draft, "the default case")

    @property
    def trained(self) -> Trained:
        """A real run of the default case."""
        return self.once("trained", self._train)

    def _train(self) -> Trained:
        plan, plugins = self.runnable(), self.draft.plugins
        assert plugins is not None
        return train(plan, plugins, self.folder / "run")

    @property
    def alone(self) -> Trained:
        """A real run of the same contract on one rank; Skip if the other run is on one, or it cannot be planned."""
        return self.once("alone", self._train_alone)

    def _train_alone(self) -> Trained:
        if self.plan().layout.world_size == 1:
            raise Skip("the default case has one rank here: there are no two to compare it with")
        drafted = self.drafted(*self._adapters, *ALONE)
        plan, plugins = _runnable(drafted, "the default case on one rank"), drafted.plugins
        assert plugins is not None
        return train(plan, plugins, self.folder / "alone")

    @property
    def ends(self) -> Ends:
        """How its ranks leave with an error after some steps; Skip if they run a script."""
        if self.worker.script is not None:
            raise Skip("its ranks run an external script, which has no trainer to leave")
        return self.once("ends", lambda: leave_with_an_error(self.runnable(), self.folder / "ends"))

    def losses(self) -> Mapping[int, float]:
        """Mean of the ranks' losses at each step of the run."""
        return self.trained.losses


def _runnable(drafted: Draft, what: str) -> Plan:
    """A draft's plan with its variables; Skip where it cannot run here."""
    if drafted.problems or drafted.plan is None:
        problem = drafted.problems[0]
        raise Skip(f"{what} cannot run here: {problem.where}: {problem.message}")
    assert drafted.plugins is not None
    return replace(drafted.plan, env=worker_env(drafted.plan, drafted.plugins))
