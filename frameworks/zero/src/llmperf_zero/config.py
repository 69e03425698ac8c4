"""DeepSpeed's configuration, from the case."""

from __future__ import annotations

import json
from dataclasses import replace

import llmperf
from llmperf.types import ModelState, RunSpec, WorkerPlan

from llmperf_zero.options import LIVE, REDUCE_BUCKET, SUB_GROUP, element_count, offloads, overlaps, zero_section

CONFIG = "ds_config.json"
NEVER = 2**31 - 1


def half_precision(spec: RunSpec) -> bool:
    """Check whether weights and gradients have 16 bits."""
    return llmperf.precision_recipe(spec.contract.precision).weight_bytes == 2


def without_masters(spec: RunSpec) -> bool:
    """Check whether the optimiser updates 16-bit weights, with states of 16 bits."""
    return half_precision(spec) and llmperf.precision_recipe(spec.contract.precision).master_weights is None


def sums_in_fp32(spec: RunSpec) -> bool:
    """Check whether 16-bit gradients are added up in float32, over micro batches and over ranks."""
    return spec.tuning.accumulation_dtype == "fp32" and half_precision(spec)


def with_held_memory(worker: WorkerPlan, spec: RunSpec) -> WorkerPlan:
    """The plan with what DeepSpeed's update and buckets hold besides ZeRO's states, and the states that it offloads.

    In 16 bits the update of stages 1 to 3 holds the gradients of its shard a second time, flat (2), and their copy in
    float32 (4); stage 0 the copy alone. Stage 3 updates parts of `sub_group_size`. A bucket of `reduce_bucket_size`
    holds gradients while they are reduced, at stages 1 and 2 a second one if that overlaps with computation; stage 3
    holds whole weights as well. Sums in float32 need no copy; in bf16 stage 1 also keeps them flat all the time
    (bf16_optimizer.py). From stage 2 on, offloading the optimiser states moves the gradients to the host too.
    Source: DeepSpeed 0.19.8, `step` and `setup_buckets` in zero/stage_1_and_2.py, `_prepare_fp32_grad_for_sub_group` in
    zero/stage3.py, `step` in fp16/unfused_optimizer.py.
    """
    stage, half = spec.tuning.sharding_stage, half_precision(spec)
    offload = offloads(spec)
    live = min(element_count(spec, "max_live_parameters", LIVE), spec.model.nominal_parameters) if stage == 3 else 0
    buckets = 0 if stage == 0 else 2 if stage < 3 and overlaps(spec) else 1
    weight = 2 if half else 4
    bucket = 4 if sums_in_fp32(spec) else weight
    states: tuple[ModelState, ...] = ()
    if offload != "none":
        states = ("optimizer",) if stage == 1 else ("optimizer", "gradients")
    return replace(
        worker,
        update_bytes_per_parameter=_update_bytes(spec) if half else 0.0,
        update_parameters=element_count(spec, "sub_group_size", SUB_GROUP) if stage == 3 else None,
        buffer_bytes=bucket * buckets * element_count(spec, "reduce_bucket_size", REDUCE_BUCKET) + weight * live,
        offloaded=("parameters", *states) if offload == "parameters" else states,
    )


def _update_bytes(spec: RunSpec) -> float:
    """Bytes for each parameter of a shard that the update of 16-bit weights holds."""
    if without_masters(spec):
        return 2.0
    if not sums_in_fp32(spec):
        return 4.0 if spec.tuning.sharding_stage == 0 else 6.0
    flat = spec.contract.precision != "fp16" and spec.tuning.sharding_stage == 1 and offloads(spec) == "none"
    return 0.0 if flat else 4.0


def ds_config(spec: RunSpec, data_parallel: int) -> str:
    """The text of `ds_config.json`. What it does not name has DeepSpeed's default.

    DeepSpeed's own stopwatch waits for the device twice in each micro step, and its check of bfloat16 gradients once in
    each step: both are off. The core measures, and ends a run whose loss is no number.
    """
    contract, tuning = spec.contract, spec.tuning
    share = contract.global_batch // (tuning.micro_batch * data_parallel)
    # also of recipes whose projections are in fp8
    weights = llmperf.precision_recipe(spec.contract.precision).weights
    section = {"enabled": weights == "bf16", "check_grad_overflow": False}
    if without_masters(spec):
        section |= {"bf16_master_weights_and_grads": True, "bf16_optimizer_states": True}
    config = {
        "train_micro_batch_size_per_gpu": tuning.micro_batch,
        "gradient_accumulation_steps": tuning.gradient_accumulation or max(1, share),
        "gradient_clipping": contract.optimizer.clip_norm or 0.0,
        "zero_optimization": zero_section(spec),
        "bf16": section,
        "fp16": {"enabled": contract.precision == "fp16"},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": NEVER,
        "timers": {"throughput": {"enabled": False}},
    }
    if sums_in_fp32(spec):
        config |= {"data_types": {"grad_accum_dtype": "fp32"}, "communication_data_type": "fp32"}
    return json.dumps(config, indent=2) + "\n"
