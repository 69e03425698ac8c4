"""llmperf framework plugin `megatron_core`: megatron-core's GPT model in tensor, pipeline, expert and data parallel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import llmperf
from llmperf_torchkit.hooks import llmperf_profile_steps as llmperf_profile_steps

if TYPE_CHECKING:
    from pathlib import Path

    from llmperf.types import Device, Facts, Plan, Probe, RunSpec, StepTrace, Trainer, WorkerPlan


@llmperf.hookimpl
def llmperf_resources() -> Iterable[Path]:
    """Overlays of cases whose tuning megatron-core does not have."""
    from pathlib import Path

    return [Path(__file__).parent / "data"]


@llmperf.hookimpl
def llmperf_facts() -> Facts:
    """Those of torch, megatron-core and Transformer Engine."""
    from dataclasses import replace

    from llmperf_torchkit.limits import torch_facts

    from llmperf_megatron_core.limits import OPTIONS

    facts = torch_facts("megatron-core", "transformer-engine", "apex")
    return replace(
        facts,
        framework_options=llmperf.option_choices(OPTIONS),
        environment_names=(*facts.environment_names, "CUDA_DEVICE_MAX_CONNECTIONS"),
        environment_prefixes=(*facts.environment_prefixes, "NVTE_"),
    )


@llmperf.hookimpl
def llmperf_plan_workers(spec: RunSpec, probe: Probe) -> WorkerPlan:
    """One rank a device; tensor parallel varies fastest, then data, then pipeline, as megatron-core numbers ranks."""
    from llmperf_torchkit.limits import torch_worker

    from llmperf_megatron_core.limits import RECIPES, problems

    layout = llmperf.standard_layout(spec)
    return torch_worker(
        spec,
        probe,
        layout,
        routing_tables=True,
        precisions=RECIPES,
        settings=("accumulation_dtype", "pipeline_schedule", "virtual_stages"),
        problems=tuple(problems(spec, probe, layout)),
    )


@llmperf.hookimpl
def llmperf_worker_env(plan: Plan) -> Mapping[str, str]:
    """One queue of the device for kernels and communication, so that they overlap in the order of their launch."""
    return {"CUDA_DEVICE_MAX_CONNECTIONS": "1", **llmperf.interface_variables(plan, "GLOO_SOCKET_IFNAME")}


@llmperf.hookimpl
def llmperf_build_trainer(plan: Plan, device: Device) -> Trainer:
    """Model chunks, data, megatron-core's data parallelism, schedule and optimiser."""
    if plan.probe.on_cpu:
        from llmperf_megatron_core.cpu import stand_in_for_cuda

        stand_in_for_cuda()
    from llmperf_megatron_core.trainer import MegatronTrainer

    return MegatronTrainer(plan, device)


@llmperf.hookimpl
def llmperf_trace_step(plan: Plan, rank: int) -> StepTrace:
    """megatron-core's schedule, data parallelism and optimiser on torch's fake tensors."""
    from llmperf_megatron_core.tracing import trace

    return trace(plan, rank, llmperf_build_trainer)
