"""The answer of a plugin that looks at a planned run before anything starts."""

from __future__ import annotations

from llmperf.types.frozen import dataclass
from llmperf.types.problems import Problem
from llmperf.types.tracing import TracedMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCheck:
    """Problems, notes and expectations of a planned run; each field may be left out."""

    problems: tuple[Problem, ...] = ()
    """Why the run would fail. It is refused, unless the user says `--no-preflight`."""
    notes: tuple[str, ...] = ()
    """One line each, kept in the plan and in its result."""
    memory: tuple[TracedMemory, ...] = ()
    """Expected memory of a rank of each pipeline stage."""
    step_seconds: float | None = None
    """Expected duration of a step, above 0; timeouts are longer for slow steps."""
    step_basis: str = ""
    """What this duration assumes, or why there is none."""
    fits: bool = True
    """False if the devices may not suffice: the settings of the run are then not suggested in place of others."""
