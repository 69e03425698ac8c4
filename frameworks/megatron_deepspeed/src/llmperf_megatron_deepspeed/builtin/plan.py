"""The built-in engine's part of the plan."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import llmperf
from llmperf.types import Needs, WorkerPlan
from llmperf_pytorch.kernel_limits import used_fused_ops
from llmperf_zero.config import CONFIG, ds_config, with_held_memory

from llmperf_megatron_deepspeed.builtin.limits import builtin_problems

if TYPE_CHECKING:
    from llmperf.types import Probe, RunSpec


def plan_builtin(spec: RunSpec, probe: Probe) -> WorkerPlan:
    """One rank a device; tensor parallel varies fastest, then data, then pipeline, as in DeepSpeed's topology."""
    layout = llmperf.standard_layout(spec)
    worker = WorkerPlan(
        layout=layout,
        needs=Needs(
            precision=llmperf.precision_recipe(spec.contract.precision).products,
            runtime="torch",
            features=llmperf.needed_features(spec, probe),
        ),
        agent=llmperf.agent_argv(),
        settings=("compile",),
        fused_ops=used_fused_ops("megatron_deepspeed", spec),
        files={CONFIG: pipeline_config(spec, layout.data_parallel)},
        problems=tuple(builtin_problems(spec, probe, layout)),
    )
    return worker if worker.problems else with_held_memory(worker, spec)


def pipeline_config(spec: RunSpec, data_parallel: int) -> str:
    """The text of `ds_config.json`: that of ZeRO, and what the pipeline engine needs.

    Between stages each tensor-parallel rank sends whole activations. Sent in parts, as is DeepSpeed's default, the host
    reads their shapes from the device with each of them and waits.
    """
    config = json.loads(ds_config(spec, data_parallel))
    config["pipeline"] = {"use_reentrant": False, "pipe_partitioned": False, "grad_partitioned": False}
    return json.dumps(config, indent=2) + "\n"
