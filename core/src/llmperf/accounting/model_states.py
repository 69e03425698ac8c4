"""Bytes of weights, gradients and AdamW states on one rank.

The most that one rank holds, without activations: Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training
Trillion Parameter Models", section 3.1 and figure 1. In mixed precision, a parameter takes 2 bytes of weights, 2 of
gradients and 12 of optimiser states (fp32 weights, momentum, variance); each stage divides one of them by the sharding
degree. In fp32 there is no second copy: 4, 4, 8; nor in pure bf16: 2, 2, 4. All experts of a mixture are counted. Ranks
that share experts hold equally many of them, which are not sharded besides.

A framework may hold more for a while, such as float32 copies of 16-bit gradients during the update, or keep states in
the memory of the host: it reports that in `WorkerPlan`, here `Transient`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from llmperf.accounting.parameters import lora_parameters, stage_experts, stage_parameters
from llmperf.accounting.precisions import precision_recipe
from llmperf.types import Layout, ModelState, Precision, RunSpec, WorkerPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Transient:
    """Memory of a framework besides model states, and the states that it keeps elsewhere; see `WorkerPlan`."""

    update_bytes: float = 0.0
    """Bytes for each trained parameter of a shard, during the update."""
    update_parameters: int | None = None
    """Most parameters that are updated at a time; None: all of the shard."""
    buffer_bytes: int = 0
    """Memory of communication buffers, before the update."""
    offloaded: tuple[ModelState, ...] = ()
    """States in the memory of the host."""
    sums_in_fp32: bool = False
    """16-bit gradients are added up in float32: 4 bytes each."""


NOTHING_ELSE = Transient()


def stage_state_bytes(spec: RunSpec, worker: WorkerPlan, on_cpu: bool) -> tuple[int, ...]:
    """Estimated bytes of model states on one rank of each pipeline stage, first stage first, without activations.

    Adapters are equally many in each layer. Ranks on the cores of a host (`on_cpu`) have no buffers beside them.
    """
    layout, lora, stages = worker.layout, spec.contract.lora, worker.layout.pipeline_parallel
    trainable = None if lora is None else _ceil(lora_parameters(spec.model, lora), stages)
    transient = Transient(
        update_bytes=worker.update_bytes_per_parameter,
        update_parameters=worker.update_parameters,
        buffer_bytes=0 if on_cpu else worker.buffer_bytes,
        offloaded=worker.offloaded,
        sums_in_fp32=spec.tuning.accumulation_dtype == "fp32",
    )
    sizes = zip(stage_parameters(spec.model, stages), stage_experts(spec.model, stages), strict=True)
    return tuple(
        state_bytes(parameters, layout, spec.contract.precision, trainable, transient, experts)
        for parameters, experts in sizes
    )


def state_bytes(
    parameters: int,
    layout: Layout,
    precision: Precision,
    trainable: int | None = None,
    transient: Transient = NOTHING_ELSE,
    experts: int = 0,
) -> int:
    """Estimated bytes of model states on one rank of a stage, and the most that is held besides them.

    `parameters` and `trainable` count the stage; `trainable` is None when all are trained, else gradients and
    optimiser states exist for the trainable ones only. `experts` are those of `parameters` that belong to routed
    experts, which have no adapters. Tensor-parallel ranks are assumed to hold equal parts. Buffers of communication
    are free again when the update begins.
    """
    recipe = precision_recipe(precision)
    trained = parameters if trainable is None else trainable
    stage, ways = layout.sharding_stage, layout.tensor_parallel
    shared = experts if layout.expert_parallel > 1 else 0  # by expert-parallel ranks
    updated = shared if trainable is None else 0
    parts: tuple[tuple[ModelState, int, int, int, int], ...] = (
        ("parameters", recipe.weight_bytes, parameters, shared, 3),
        ("gradients", 4 if transient.sums_in_fp32 else recipe.gradient_bytes, trained, updated, 2),
        ("optimizer", recipe.optimizer_bytes, trained, updated, 1),
    )
    held = sum(
        _ceil(each * (size - whole), ways * (layout.sharding_degree if stage >= sharded_from else 1))
        + _ceil(each * whole, ways * layout.expert_parallel)
        for state, each, size, whole, sharded_from in parts
        if state not in transient.offloaded
    )
    shard = _ceil(_ceil(trained - updated, ways), layout.sharding_degree if stage else 1)
    shard += _ceil(updated, ways * layout.expert_parallel)
    at_once = shard if transient.update_parameters is None else min(shard, transient.update_parameters)
    update = 0 if "optimizer" in transient.offloaded else math.ceil(transient.update_bytes * at_once)
    return held + max(update, transient.buffer_bytes)


def _ceil(total: int, parts: int) -> int:
    return -(-total // parts)
