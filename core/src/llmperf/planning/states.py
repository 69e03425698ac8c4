"""The states of planning: Request -> Resolved -> Planned | Refused. `planning.build` leads from one to the next."""

from __future__ import annotations

from dataclasses import dataclass, field

from llmperf.planning.request import Request
from llmperf.planning.vendors import Machine
from llmperf.plugins.loading import Plugins
from llmperf.types.layout import Batch, Layout
from llmperf.types.plan import FlopCount, Plan
from llmperf.types.problems import Problem
from llmperf.types.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """How the ranks are laid out and the batch is divided, where the contract's figures fit together."""

    layout: Layout
    """As the core lays the ranks out; the framework's own layout is in the plan."""
    batch: Batch
    """Batch arithmetic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A request with its case, machine and plugins, before the framework is asked."""

    request: Request
    """What the user asked for."""
    spec: RunSpec
    """The case with overlays and settings applied."""
    machine: Machine
    """The devices to plan for."""
    plugins: Plugins = field(repr=False)
    """Those of the run. The framework is not among them if it cannot be used."""
    flops: FlopCount
    """The numerator of MFU under every convention."""
    arithmetic: Arithmetic | None
    """None if the contract's figures do not fit together; `problems` says why."""
    problems: tuple[Problem, ...]
    """What does not fit together without regard to the framework."""

    @property
    def bounded(self) -> bool:
        """Whether all sizes are such that work on them ends, so that a framework can be asked."""
        return all(problem.code != "value_too_large" for problem in self.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What both outcomes of planning have."""

    resolved: Resolved
    """The request with its case, machine and plugins."""

    @property
    def spec(self) -> RunSpec:
        """The case with overlays and settings applied."""
        return self.resolved.spec

    @property
    def machine(self) -> Machine:
        """The devices to plan for."""
        return self.resolved.machine

    @property
    def plugins(self) -> Plugins:
        """Those of the run."""
        return self.resolved.plugins


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(_Outcome):
    """A run that can be started, if the machine is here."""

    plan: Plan
    """The whole plan, without problems."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """None."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(_Outcome):
    """A run that cannot be started, with every reason that is known."""

    problems: tuple[Problem, ...]
    """One or more: of the contract, the machine and the framework."""
    plan: Plan | None
    """The plan with its problems, to be shown; None if the ranks cannot be laid out or the framework not asked."""


Outcome = Planned | Refused
"""How planning ends."""
