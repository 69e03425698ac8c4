"""The nearest settings with which a plan's estimated memory suffices."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from llmperf.types.plan import Plan

MOST_TRIED = 24


def nearest_fitting(plan: Plan, fits_with: Callable[[Sequence[str]], bool]) -> str | None:
    """The first change that fits, as options of the command line; None if none of those tried does.

    `fits_with` returns whether the plan with further settings has no problems and fits.
    """
    for settings in islice(candidates(plan), MOST_TRIED):
        if fits_with(settings):
            return as_options(settings)
    return None


def as_options(settings: Sequence[str]) -> str:
    """Settings as one types them: `--set micro_batch=2`, quoted for a shell where they must be."""
    return " ".join(f"--set {shlex.quote(setting)}" for setting in settings)


def candidates(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Changes that take less memory: kernels that cost no time first, then those that change least. The global batch
    stays."""
    tuning, layout = plan.spec.tuning, plan.layout
    free = [] if "auto" in tuning.fused_ops else ['fused_ops=["auto"]']
    free += ["attention=auto"] if tuning.attention == "eager" else []
    yield from ((change,) for change in free)
    if len(free) > 1:
        yield tuple(free)
    halved = (tuning.micro_batch >> times for times in range(1, tuning.micro_batch.bit_length()))
    smaller = [f"micro_batch={size}" for size in halved]
    checkpointing = [] if tuning.gradient_checkpointing else ["gradient_checkpointing=true"]
    stages = range(layout.sharding_stage + 1, 4) if layout.data_parallel * layout.context_parallel > 1 else ()
    sharding = [f"sharding_stage={stage}" for stage in stages]
    yield from ((change,) for change in (*smaller, *checkpointing, *sharding))
    yield from ((size, other) for other in (*checkpointing, *sharding) for size in smaller[-1:])
    yield from ((other, *checkpointing) for other in sharding if checkpointing)
    yield from ((smaller[-1], *checkpointing, other) for other in sharding if smaller and checkpointing)
    last = (*smaller[-1:], *checkpointing, *sharding[-1:])
    yield from ((*last, f"framework.offload={what}") for what in ("optimizer", "parameters"))
    for degree in (2, 4, 8):
        if degree > tuning.tensor_parallel and layout.devices_per_node % degree == 0:
            yield (*smaller[-1:], *checkpointing, f"tensor_parallel={degree}")
