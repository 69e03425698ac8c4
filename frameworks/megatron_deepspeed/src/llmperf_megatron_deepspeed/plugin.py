"""llmperf framework plugin `megatron_deepspeed`: tensor x pipeline x data parallel training on DeepSpeed.

`framework.engine` says who trains: `builtin` (default), layers of our own in DeepSpeed's pipeline; or `checkout`, a
user's own checkout of Megatron-DeepSpeed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import llmperf
from llmperf_torchkit.hooks import llmperf_profile_steps as llmperf_profile_steps

if TYPE_CHECKING:
    from pathlib import Path

    from llmperf.types import (
        Device,
        Facts,
        LoggedFacts,
        LoggedFailure,
        LoggedStep,
        Plan,
        Probe,
        RunSpec,
        StepTrace,
        Trainer,
        WorkerPlan,
    )

CHECKOUT = "checkout"


@llmperf.hookimpl
def llmperf_resources() -> Iterable[Path]:
    """The overlay that brings cases made for another framework to ZeRO-1."""
    from pathlib import Path

    return [Path(__file__).parent / "data"]


@llmperf.hookimpl
def llmperf_facts() -> Facts:
    """Those of torch, DeepSpeed and Megatron."""
    from dataclasses import replace

    from llmperf_zero.options import deepspeed_facts

    from llmperf_megatron_deepspeed.builtin.plan import OPTIONS
    from llmperf_megatron_deepspeed.checkout.home import OPTION

    options = llmperf.option_choices({**OPTIONS, OPTION: ()})
    return replace(deepspeed_facts("megatron", "apex", "flash_attn"), framework_options=options)


@llmperf.hookimpl
def llmperf_plan_workers(spec: RunSpec, probe: Probe) -> WorkerPlan:
    """As the chosen engine has it."""
    if spec.framework.get("engine") == CHECKOUT:
        from llmperf_megatron_deepspeed.checkout.plan import plan_checkout

        return plan_checkout(spec, probe)
    from llmperf_megatron_deepspeed.builtin.plan import plan_builtin

    return plan_builtin(spec, probe)


@llmperf.hookimpl
def llmperf_build_trainer(plan: Plan, device: Device) -> Trainer:
    """The built-in engine; a checkout's script trains by itself."""
    from llmperf_megatron_deepspeed.builtin.trainer import PipelineTrainer

    return PipelineTrainer(plan, device)


@llmperf.hookimpl
def llmperf_worker_env(plan: Plan) -> Mapping[str, str]:
    """Variables for DeepSpeed, and a single queue for all kernels of a CUDA device if communication is to overlap.

    With several queues, products that were launched after a communication may leave it no room to begin.
    """
    from llmperf_zero.plugin import llmperf_worker_env as of_deepspeed

    env = of_deepspeed(plan)
    overlaps = plan.spec.framework.get("overlap_tensor_parallel") is True and not plan.probe.on_cpu
    return {**env, "CUDA_DEVICE_MAX_CONNECTIONS": "1"} if overlaps else env


@llmperf.hookimpl
def llmperf_parse_log(line: str) -> LoggedStep | LoggedFacts | LoggedFailure | None:
    """Parse a line of `pretrain_gpt.py` for the engine `checkout`."""
    from llmperf_megatron_deepspeed.checkout.log import parse_log

    return parse_log(line)


@llmperf.hookimpl
def llmperf_trace_step(plan: Plan, rank: int) -> StepTrace:
    """The built-in engine on torch's fake tensors; UserError for a checkout, whose script is not traced."""
    if plan.spec.framework.get("engine") == CHECKOUT:
        from llmperf.errors import UserError

        raise UserError("framework.engine: a step can be traced with builtin, found checkout")
    from llmperf_megatron_deepspeed.builtin.tracing import trace_builtin

    return trace_builtin(plan, rank)
