"""Problems of a plan, and the answer of a plugin that checks a planned run before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from llmperf.types.frozen import dataclass
from llmperf.types.tracing import OperationKind, TracedMemory
from llmperf.types.units import Count, NonNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedWork:
    """A step of a rank of one pipeline stage, in figures."""

    rank: Count
    """The first rank of the stage; the others are like it."""
    method: Literal["fake tensors", "analytic"]
    """Source of its operations, as in a `StepTrace`."""
    flops: NonNegative
    """FLOPs that are computed, recomputation included."""
    bytes: NonNegative
    """Bytes that operations read and write."""
    seconds: Mapping[OperationKind, NonNegative] = field(default_factory=dict)
    """Seconds by kind of operation; empty without rates of the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCheck:
    """Problems, notes and expectations of a planned run; each field may be left out."""

    problems: tuple[Problem, ...] = ()
    """Reasons why the run would fail. It is refused, unless the user says `--no-preflight`."""
    notes: tuple[str, ...] = ()
    """One line each, kept in the plan and in its result."""
    memory: tuple[TracedMemory, ...] = ()
    """Expected memory of a rank of each pipeline stage."""
    work: tuple[ExpectedWork, ...] = ()
    """Expected work of each pipeline stage, for the roofline and for profiles."""
    step_seconds: float | None = None
    """Expected duration of a step, above 0; timeouts are longer for slow steps."""
    step_basis: str = ""
    """Assumptions of this duration, or the reason why there is none."""
    fits: bool = True
    """False if the devices may not suffice: the settings of the run are then not suggested in place of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A reason why a run cannot be started, found while planning."""

    where: str
    """The setting, such as `tuning.tensor_parallel`."""
    message: str
    """One line: what was expected, what was found, and the nearest valid choice."""
    code: str = "plugin_problem"
    """A name in `data/problems.toml`, or `PLUGIN.name` for a problem of a plugin, such as `zero.sharding_degree`."""
