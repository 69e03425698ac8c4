"""Parallel layout: world = tensor x pipeline x data parallel = nodes x devices per node."""

from __future__ import annotations

from llmperf.types.plan import Layout, Problem
from llmperf.types.spec import Model, RunSpec, Tuning


def standard_layout(spec: RunSpec) -> Layout:
    """The layout that a spec's tuning gives; the core has made sure that it divides (`layout_problems`)."""
    return layout_of(spec.tuning)


def data_parallel_of(tuning: Tuning) -> int:
    """Ranks that see different data: world / (tensor x pipeline parallel), at least 1."""
    return max(1, tuning.nodes * tuning.devices // (tuning.tensor_parallel * tuning.pipeline_parallel))


def layout_of(tuning: Tuning) -> Layout:
    """The layout of a tuning that divides; sharded state is shared by all data-parallel ranks unless it says less."""
    data_parallel = data_parallel_of(tuning)
    sharding = tuning.sharding_degree or (data_parallel if tuning.sharding_stage else 1)
    return Layout(
        nodes=tuning.nodes,
        devices_per_node=tuning.devices,
        tensor_parallel=tuning.tensor_parallel,
        pipeline_parallel=tuning.pipeline_parallel,
        data_parallel=data_parallel,
        sharding_stage=tuning.sharding_stage,
        sharding_degree=sharding,
    )


def layout_problems(tuning: Tuning, model: Model) -> list[Problem]:
    """Why the ranks cannot be laid out so, all reasons at once."""
    world, parts = tuning.nodes * tuning.devices, tuning.tensor_parallel * tuning.pipeline_parallel
    problems = []
    if world % parts:
        problems.append(
            Problem(
                where="tuning.tensor_parallel",
                message=f"tensor parallel {tuning.tensor_parallel} x pipeline parallel {tuning.pipeline_parallel}"
                f" = {parts} does not divide {tuning.nodes} x {tuning.devices} = {world} ranks;"
                f" the nearest number of ranks that works is {nearest_multiple(world, parts)}",
            )
        )
    elif tuning.sharding_degree and (world // parts) % tuning.sharding_degree:
        problems.append(
            Problem(
                where="tuning.sharding_degree",
                message=f"expected a divisor of data parallel {world // parts}, found {tuning.sharding_degree};"
                f" the nearest is {nearest_divisor(world // parts, tuning.sharding_degree)}",
            )
        )
    return problems + _model_problems(tuning, model)


def _model_problems(tuning: Tuning, model: Model) -> list[Problem]:
    shared = (
        ("tensor_parallel", tuning.tensor_parallel, "attention heads", model.attention_heads),
        ("tensor_parallel", tuning.tensor_parallel, "key/value heads", model.kv_heads),
        ("pipeline_parallel", tuning.pipeline_parallel, "layers", model.layers),
    )
    return [
        Problem(
            where=f"tuning.{name}",
            message=f"{model.name} has {total} {what}, which {name.replace('_', ' ')} {parts} does not divide;"
            f" the nearest that does is {nearest_divisor(total, parts)}",
        )
        for name, parts, what, total in shared
        if total % parts
    ]


def nearest_divisor(total: int, wanted: int) -> int:
    """The divisor of `total` that is nearest to `wanted`, the smaller of two."""
    return min((one for one in range(1, total + 1) if total % one == 0), key=lambda one: (abs(one - wanted), one))


def nearest_multiple(wanted: int, of: int) -> int:
    """The positive multiple of `of` that is nearest to `wanted`, the smaller of two."""
    below = max(wanted // of, 1) * of
    return min((below, below + of), key=lambda one: (abs(one - wanted), one))
