"""DeepSpeed's configuration for `pretrain_gpt.py`, from the case."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmperf.types import Layout, RunSpec

CONFIG = "ds_config.json"
NEVER = 2**31 - 1
SCALE_POWER = 12
"""The loss scale of fp16 begins at 2 to this power. From DeepSpeed's 16 the first steps would be skipped until one
fits, and the script does not print the losses of these."""
BUCKET = 5_000_000
"""Elements in one reduction, as in the published configuration."""


def ds_config(spec: RunSpec, layout: Layout) -> str:
    """The text of `ds_config.json`. DeepSpeed clips by it, not by `--clip-grad`."""
    contract, tuning = spec.contract, spec.tuning
    share = contract.global_batch // (tuning.micro_batch * layout.data_parallel)
    config = {
        "train_batch_size": contract.global_batch,
        "train_micro_batch_size_per_gpu": tuning.micro_batch,
        "gradient_accumulation_steps": tuning.gradient_accumulation or max(1, share),
        "gradient_clipping": contract.optimizer.clip_norm or 0.0,
        "zero_optimization": {
            "stage": tuning.sharding_stage,
            "contiguous_gradients": False,
            "overlap_comm": False,
            "reduce_bucket_size": BUCKET,
            "allgather_bucket_size": BUCKET,
        },
        "bf16": {"enabled": contract.precision == "bf16", "check_grad_overflow": False},
        "fp16": _fp16(contract.precision == "fp16"),
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": NEVER,
        "timers": {"throughput": {"enabled": False}},
    }
    return json.dumps(config, indent=2) + "\n"


def _fp16(enabled: bool) -> dict[str, object]:
    return {"enabled": True, "initial_scale_power": SCALE_POWER} if enabled else {"enabled": False}
