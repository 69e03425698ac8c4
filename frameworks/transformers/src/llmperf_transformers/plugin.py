"""llmperf framework plugin `transformers`: model classes of Hugging Face, by DDP, FSDP2 or DeepSpeed ZeRO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import llmperf
from llmperf_torchkit.hooks import llmperf_profile_steps as llmperf_profile_steps

if TYPE_CHECKING:
    from llmperf.types import Device, Facts, Plan, Probe, RunSpec, StepTrace, Trainer, WorkerPlan


@llmperf.hookimpl
def llmperf_facts() -> Facts:
    """Those of torch and transformers."""
    from dataclasses import replace

    from llmperf_torchkit.limits import torch_facts

    from llmperf_transformers.limits import OPTIONS

    return replace(torch_facts("transformers"), framework_options=llmperf.option_choices(OPTIONS))


@llmperf.hookimpl
def llmperf_plan_workers(spec: RunSpec, probe: Probe) -> WorkerPlan:
    """One rank a device; data parallelism only."""
    from dataclasses import replace

    from llmperf_pytorch.limits import gathered_blocks, shares_model, update_bytes_per_parameter
    from llmperf_torchkit.limits import torch_worker

    from llmperf_transformers.limits import RECIPES, by_deepspeed, counted_notes, problems

    layout = llmperf.standard_layout(spec)
    found = tuple(problems(spec, probe))
    worker = torch_worker(
        spec,
        probe,
        layout,
        padding=True,
        routing_tables=True,
        precisions=RECIPES,
        settings=("accumulation_dtype", "compile"),
        problems=found,
        notes=counted_notes(spec),
    )
    if found:
        return worker
    if by_deepspeed(spec):
        from llmperf_zero.config import CONFIG, ds_config, with_held_memory

        return with_held_memory(replace(worker, files={CONFIG: ds_config(spec, layout.data_parallel)}), spec)
    return replace(
        worker,
        weights_in_fp32=spec.contract.precision != "bf16_pure" and not shares_model(layout),
        update_bytes_per_parameter=update_bytes_per_parameter(spec, layout),
        gathered_blocks=gathered_blocks(spec, layout),
    )


@llmperf.hookimpl
def llmperf_worker_env(plan: Plan) -> Mapping[str, str]:
    """The network interface of the ranks, if there are several nodes; nothing is looked up on a hub."""
    from llmperf_transformers.limits import by_deepspeed

    env = {"HF_HUB_OFFLINE": "1", **llmperf.interface_variables(plan, "GLOO_SOCKET_IFNAME")}
    if by_deepspeed(plan.spec):
        from llmperf_zero.plugin import llmperf_worker_env as of_deepspeed

        env |= of_deepspeed(plan)
    return env


@llmperf.hookimpl
def llmperf_build_trainer(plan: Plan, device: Device) -> Trainer:
    """The model class of transformers for the case's model, with the data and AdamW of llmperf_pytorch."""
    from llmperf_pytorch.limits import shares_model

    from llmperf_transformers.limits import by_deepspeed

    if by_deepspeed(plan.spec):
        from llmperf_transformers.deepspeed import DeepSpeedTrainer

        return DeepSpeedTrainer(plan, device)
    from llmperf_transformers.trainer import ReplicatedTrainer, ShardedTrainer

    return ShardedTrainer(plan, device) if shares_model(plan.layout) else ReplicatedTrainer(plan, device)


@llmperf.hookimpl
def llmperf_trace_step(plan: Plan, rank: int) -> StepTrace:
    """The trainer on torch's fake tensors."""
    from llmperf_transformers.tracing import trace

    return trace(plan, rank, llmperf_build_trainer)
