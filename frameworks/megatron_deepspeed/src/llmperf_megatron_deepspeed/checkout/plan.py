"""The engine's part of the plan: the script's command, its configuration, what it cannot run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import llmperf
from llmperf.types import Needs, Script, WorkerPlan

from llmperf_megatron_deepspeed.checkout.command import pretrain_arguments
from llmperf_megatron_deepspeed.checkout.config import CONFIG, ds_config
from llmperf_megatron_deepspeed.checkout.defects import defect_notes
from llmperf_megatron_deepspeed.checkout.home import chosen_home, describe
from llmperf_megatron_deepspeed.checkout.limits import checkout_problems

if TYPE_CHECKING:
    from llmperf.types import Probe, RunSpec

START = "llmperf_megatron_deepspeed.checkout.start"

RANK_ENVIRONMENT = {
    "LOCAL_SIZE": "{local_world_size}",
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "HF_HUB_OFFLINE": "1",
}
"""Variables for DeepSpeed and the script; everything that the script may load is local."""

OWN_WEIGHTS = (
    "initial weights are the script's own draw, not llmperf's: losses of the first steps differ from other frameworks'"
)
OWN_WARM_UP = (
    "the script's learning rate begins at 0 and is one step behind llmperf's while it warms up; then they are the same"
)


def plan_checkout(spec: RunSpec, probe: Probe) -> WorkerPlan:
    """One process of `pretrain_gpt.py` a device, started and watched by llmperf's own agent."""
    layout = llmperf.standard_layout(spec)
    home = chosen_home(spec.framework)
    arguments = pretrain_arguments(spec, probe, layout)
    problems = tuple(checkout_problems(spec, probe, layout, home, arguments))
    return WorkerPlan(
        layout=layout,
        needs=Needs(
            precision=llmperf.precision_recipe(spec.contract.precision).products,
            runtime="torch",
            features=llmperf.needed_features(spec, probe),
        ),
        agent=llmperf.agent_argv(),
        rank_env=RANK_ENVIRONMENT,
        files={CONFIG: ds_config(spec, layout)},
        script=Script(command=(*_start(home), *arguments), step_rank=layout.world_size - 1),
        notes=() if problems or home is None else _notes(spec, home),
        problems=problems,
    )


def _start(home: Path | None) -> tuple[str, ...]:
    program = ("{python}", *(("-P",) if sys.version_info >= (3, 11) else ()), "-m", START)
    return (*program, "{run_dir}", str(home))


def _notes(spec: RunSpec, home: Path) -> tuple[str, ...]:
    warms_up = spec.contract.optimizer.warmup_steps > 0
    return (describe(home), OWN_WEIGHTS, *((OWN_WARM_UP,) if warms_up else ()), *defect_notes(home))
