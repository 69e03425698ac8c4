"""A framework's part of the plan against what was asked for: what would only come to light in the run, or never."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.accounting.layout import standard_layout
from llmperf.plugins.faults import who
from llmperf.plugins.loading import Plugins
from llmperf.types.layout import Layout
from llmperf.types.plan import Script, WorkerPlan
from llmperf.types.problems import Problem
from llmperf.types.spec import RunSpec

HOOK = "llmperf_plan_workers"
SIZES = (
    "nodes",
    "devices_per_node",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "context_parallel",
    "expert_parallel",
    "sequence_parallel",
)


def worker_problems(spec: RunSpec, worker: WorkerPlan, plugins: Plugins) -> list[Problem]:
    """Faults of the plugin's own, each with its name."""
    name = who(plugins.owner(HOOK))
    told = [*_layout_faults(standard_layout(spec), worker.layout), *_start_faults(worker, plugins)]
    return [Problem(code="framework_fault", where="tuning.framework", message=f"{name}: {HOOK}: {one}") for one in told]


def _layout_faults(expected: Layout, found: Layout) -> Iterator[str]:
    for size in SIZES:
        wanted, given = getattr(expected, size), getattr(found, size)
        if wanted != given:
            yield f"layout.{size}: expected {wanted}, as llmperf.standard_layout(spec) gives, found {given}"
    if sorted(found.rank_order) != sorted(expected.rank_order):
        yield f"layout.rank_order: expected each of {', '.join(expected.rank_order)} once, found {found.rank_order}"


def _start_faults(worker: WorkerPlan, plugins: Plugins) -> Iterator[str]:
    if not worker.agent:
        yield "agent: expected the argv that starts a node's ranks, such as llmperf.agent_argv(), found none"
    hook = "llmperf_build_trainer" if worker.script is None else "llmperf_parse_log"
    if not plugins.answers(hook):
        what = "ranks without a script need" if worker.script is None else "a script needs"
        yield f"{what} {hook}, which it does not answer"
    if worker.script is not None:
        yield from _script_faults(worker.script, worker.layout.world_size)


def _script_faults(script: Script, ranks: int) -> Iterator[str]:
    if not script.command:
        yield "script.command: expected the argv of one rank, found none"
    if not 0 <= script.step_rank < ranks:
        yield f"script.step_rank: expected one of the ranks 0 to {ranks - 1}, found {script.step_rank}"
