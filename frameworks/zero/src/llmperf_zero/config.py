"""DeepSpeed's configuration, from the case."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmperf.types import RunSpec

CONFIG = "ds_config.json"
NEVER = 2**31 - 1


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
