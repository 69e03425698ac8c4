"""The states of planning, by `planning.build`: Selection, Site and RunOptions -> Resolved -> Planned | Refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from llmperf.cases.library import GivenModel, Library, library_with_case, whole_library_for
from llmperf.planning.vendors import Machine
from llmperf.plugins.discovery import Found
from llmperf.plugins.loading import Plugins
from llmperf.types.commands import PlannedRun
from llmperf.types.flop_counts import FlopCount
from llmperf.types.layout import Batch
from llmperf.types.models import Model
from llmperf.types.observing import Observer
from llmperf.types.plan import Plan
from llmperf.types.plan_checks import Problem
from llmperf.types.remote import Containers, OpenLauncher
from llmperf.types.spec import Case, RunSpec

LOCAL = "local"
"""The launcher of this machine, which runs use unless they name another."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The requested measurement: a case, by which framework, and what is changed in it."""

    case: str
    """A name, or the path of a case file."""
    framework: str | None = None
    """None: `default_framework`, or else the case's own."""
    default_framework: str | None = None
    """Framework of the user's configuration file; used if the command line names none."""
    settings: tuple[str, ...] = ()
    """`PATH=VALUE` of each `--set`."""
    overlays: tuple[Path, ...] = ()
    """Overlay files that the user named; settings take precedence over them."""
    challenge: str | None = None
    """Nonce of a challenge, which determines the seed."""
    given: tuple[Case, Model] | None = None
    """A case and its model as a submission states them, in place of those in the library; no overlays apply."""

    def read_case(self) -> Case:
        """The case; UserError if it is unknown or invalid."""
        return self.given[0] if self.given else library_with_case(self.case).case(self.case)

    def models(self, shelf: Library, name: str) -> Library:
        """Library that has the model of a name: that of the run's plugins, or of another installed one."""
        if self.given:
            return GivenModel(self.given[1])
        known = name.endswith(".toml") or name in shelf.paths("models")
        return shelf if known else whole_library_for("models", name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Place of a run."""

    vendor: str | None = None
    """Whose devices; None: the best that are there."""
    devices: int | None = None
    """Ranks on each node; None: as the case says."""
    on: str | None = None
    """A machine of a vendor's catalogue, `MODEL:NODESxDEVICES`, which is only planned for."""
    launcher: str = LOCAL
    """The launcher that brings the ranks to the nodes."""
    launcher_options: Mapping[str, Any] = field(default_factory=dict)
    """The launcher's table in the user's configuration file."""
    opened: OpenLauncher | None = field(default=None, compare=False, repr=False)
    """The launcher, if it was asked something already; one launcher answers all questions of a run."""
    hosts: tuple[str, ...] = ()
    """Hosts that the user named for the launcher."""
    image: str | None = None
    """Container image of the nodes."""
    containers: Containers = field(default_factory=Containers)
    """Containers for launchers that start none themselves."""
    interface: str | None = None
    """Network interface over which the nodes reach one another; None for that of the launcher's addresses."""
    python: tuple[str, str | None] | None = None
    """Path of the workers' Python and the name of its environment; None for this Python."""


HERE = Site()
"""This machine, with this Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options for checking, following and logging a run."""

    preflight: bool = True
    """Refuse a run whose estimated memory, with activations, is far beyond that of its devices."""
    stall_seconds: float = 300.0
    """A run in which no rank finishes a step for so long has hung."""
    startup_seconds: float = 1800.0
    """Timeout before the first step and during evaluation."""
    followers: tuple[Callable[[], Iterable[tuple[Found, Observer]]], ...] = field(default=(), compare=False, repr=False)
    """Functions that give further observers of each run, with the plugins that these are of."""
    changes: tuple[Callable[[PlannedRun], Plan], ...] = field(default=(), compare=False, repr=False)
    """Functions by which plugins change the plan of each run."""


class Request(NamedTuple):
    """The three together, as `plan_run(*request)` takes them."""

    selection: Selection
    site: Site = HERE
    options: RunOptions = RunOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The case with all settings, on a machine, with its plugins, before the framework is asked."""

    spec: RunSpec
    """The case with overlays and settings applied."""
    site: Site
    """Place that the user wants."""
    options: RunOptions
    """Options for checking and following it."""
    machine: Machine
    """The devices to plan for."""
    plugins: Plugins = field(repr=False)
    """The plugins of the run, without the framework if it cannot be used."""
    flops: FlopCount
    """The numerator of MFU under every convention."""
    batch: Batch | None
    """Division of the batch; None if the contract's figures do not fit together, and `problems` says why."""
    problems: tuple[Problem, ...] = ()
    """Problems that do not depend on the framework."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(Resolved):
    """A run that can be started, if the machine is here: it has no problems."""

    plan: Plan
    """The plan, without problems."""
    fits: bool = True
    """No check doubts that the devices suffice."""

    def answers(self, hook: str) -> bool:
        """Check whether a plugin of the run answers a hook."""
        return self.plugins.answers(hook)

    def changed(self) -> Planned:
        """Apply the changes of plugins that added options to the command."""
        planned = self
        for change in self.options.changes:
            planned = replace(planned, plan=change(planned))
        return planned


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Resolved):
    """A run that cannot be started; `problems` has every known reason, of contract, machine and framework."""

    plan: Plan | None
    """The plan with its problems, to be shown; None if there is no layout or the framework could not be asked."""


Outcome = Planned | Refused
"""The result of planning."""
