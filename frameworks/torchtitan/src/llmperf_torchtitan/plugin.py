"""llmperf framework plugin `torchtitan`: torchtitan's trainer with FSDP2, tensor, pipeline and expert parallelism."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llmperf
from llmperf_torchkit.hooks import llmperf_profile_steps as llmperf_profile_steps
from llmperf_torchkit.hooks import llmperf_worker_env as llmperf_worker_env

if TYPE_CHECKING:
    from llmperf.types import Device, Facts, Plan, Probe, RunSpec, StepTrace, Trainer, WorkerPlan


@llmperf.hookimpl
def llmperf_facts() -> Facts:
    """Those of torch and torchtitan."""
    from llmperf_torchkit.limits import torch_facts

    return torch_facts("torchtitan")


@llmperf.hookimpl
def llmperf_plan_workers(spec: RunSpec, probe: Probe) -> WorkerPlan:
    """One rank a device, numbered as torchtitan's meshes number them."""
    from llmperf_torchkit.limits import torch_worker

    from llmperf_torchtitan.limits import RECIPES, problems

    layout = llmperf.standard_layout(spec)
    shards_more = layout.sharding_stage == 1
    return torch_worker(
        spec,
        probe,
        layout,
        weights_in_fp32=True,
        precisions=RECIPES,
        settings=("accumulation_dtype", "compile", "pipeline_schedule", "recompute", "virtual_stages"),
        gathered_blocks=2 if layout.sharding_stage == 3 else 0,
        notes=("sharding stage 1: FSDP2 shards gradients too, as at 2",) * shards_more,
        problems=tuple(problems(spec, probe, layout)),
    )


@llmperf.hookimpl
def llmperf_build_trainer(plan: Plan, device: Device) -> Trainer:
    """torchtitan's trainer with the case's weights, tokens and learning rates."""
    if plan.probe.on_cpu:
        from llmperf_torchtitan.cpu import stand_in_for_accelerator

        stand_in_for_accelerator()
    from llmperf_torchtitan.trainer import TitanTrainer

    return TitanTrainer(plan, device)


@llmperf.hookimpl
def llmperf_trace_step(plan: Plan, rank: int) -> StepTrace:
    """torchtitan's trainer on torch's fake tensors."""
    from llmperf_torchtitan.tracing import trace

    return trace(plan, rank, llmperf_build_trainer)
