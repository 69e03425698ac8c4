"""DeepSpeed's configuration, from the case."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmperf.types import RunSpec

CONFIG = "ds_config.json"
NEVER = 2**31 - 1
BUCKET_ELEMENTS = 500_000_000
"""DeepSpeed's default of `reduce_bucket_size`."""
LIVE_ELEMENTS = 1_000_000_000
"""DeepSpeed's default of `stage3_max_live_parameters`."""


def update_bytes_per_parameter(spec: RunSpec) -> float:
    """What DeepSpeed's update holds beside ZeRO's states, bytes for each trained parameter of a rank's shard.

    In 16 bits at stages 1 and 2: the gradients of the shard a second time, flat (2), and their copy in float32 (4). At
    stage 0: the copy alone. At stage 3 DeepSpeed updates in parts of `sub_group_size`, which is not counted. Source:
    DeepSpeed 0.19.8, `step` in zero/stage_1_and_2.py (`flat_grad_partition`, `single_grad_partition`) and in
    fp16/unfused_optimizer.py (`fp32_param.grad`).
    """
    half = spec.contract.precision in ("bf16", "fp16")
    return {0: 4.0, 1: 6.0, 2: 6.0}.get(spec.tuning.sharding_stage, 0.0) if half else 0.0


def buffer_bytes(spec: RunSpec) -> int:
    """What DeepSpeed holds all the time: the bucket of gradients, and at stage 3 also whole weights for use."""
    if not spec.tuning.sharding_stage:
        return 0
    element = 2 if spec.contract.precision in ("bf16", "fp16") else 4
    live = min(LIVE_ELEMENTS, spec.model.nominal_parameters) if spec.tuning.sharding_stage == 3 else 0
    return element * (BUCKET_ELEMENTS + live)


def ds_config(spec: RunSpec, data_parallel: int) -> str:
    """The text of `ds_config.json`. What it does not name has DeepSpeed's default.

    DeepSpeed's own stopwatch waits for the device twice in each micro step, and its check of bfloat16 gradients once in
    each step: both are off. The core measures, and ends a run whose loss is no number.
    """
    contract, tuning = spec.contract, spec.tuning
    share = contract.global_batch // (tuning.micro_batch * data_parallel)
    config = {
        "train_micro_batch_size_per_gpu": tuning.micro_batch,
        "gradient_accumulation_steps": tuning.gradient_accumulation or max(1, share),
        "gradient_clipping": contract.optimizer.clip_norm or 0.0,
        "zero_optimization": {"stage": tuning.sharding_stage},
        "bf16": {"enabled": contract.precision == "bf16", "check_grad_overflow": False},
        "fp16": {"enabled": contract.precision == "fp16"},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": NEVER,
        "timers": {"throughput": {"enabled": False}},
    }
    return json.dumps(config, indent=2) + "\n"
