"""llmperf framework plugin `lora`: low-rank adapters (peft) on frozen weights, by DDP or DeepSpeed ZeRO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import llmperf
from llmperf_torchkit.hooks import llmperf_profile_steps as llmperf_profile_steps

if TYPE_CHECKING:
    from llmperf.types import Device, Facts, Plan, Probe, RunSpec, StepTrace, Trainer, WorkerPlan


@llmperf.hookimpl
def llmperf_facts() -> Facts:
    """Those of torch and peft, and of DeepSpeed where it is installed."""
    from dataclasses import replace

    from llmperf_lora.limits import CHECKS

    packages = ("peft", "transformers", "accelerate", "datasets")
    try:
        from llmperf_zero.options import deepspeed_facts as facts
    except ImportError:
        from llmperf_torchkit.limits import torch_facts as facts
    return replace(facts(*packages), framework_options=llmperf.option_choices(CHECKS))


@llmperf.hookimpl
def llmperf_plan_workers(spec: RunSpec, probe: Probe) -> WorkerPlan:
    """One rank a device; DeepSpeed's configuration as a file where it shards."""
    from llmperf_pytorch.kernel_limits import used_fused_ops
    from llmperf_pytorch.limits import TORCH_SETTINGS
    from llmperf_torchkit.limits import torch_worker

    from llmperf_lora.limits import notes, problems

    layout = llmperf.standard_layout(spec)
    found = tuple(problems(spec, probe, layout))
    worker = torch_worker(
        spec,
        probe,
        layout,
        padding=True,
        settings=("accumulation_dtype", *TORCH_SETTINGS),
        routing_tables=True,
        fused_ops=used_fused_ops("lora", spec),
        notes=() if found else tuple(notes(spec)),
        problems=found,
    )
    return _sharded(worker, spec) if spec.tuning.sharding_stage and not found else worker


def _sharded(worker: WorkerPlan, spec: RunSpec) -> WorkerPlan:
    """With DeepSpeed's configuration and what DeepSpeed holds."""
    from dataclasses import replace

    from llmperf_zero.config import CONFIG, ds_config, with_held_memory

    files = {CONFIG: ds_config(spec, worker.layout.data_parallel)}
    return with_held_memory(replace(worker, files=files), spec)


@llmperf.hookimpl
def llmperf_worker_env(plan: Plan) -> Mapping[str, str]:
    """Nothing is fetched from a hub; the network interface; where it shards, also what DeepSpeed needs."""
    ours = {"HF_HUB_OFFLINE": "1", **llmperf.interface_variables(plan, "GLOO_SOCKET_IFNAME")}
    if not plan.spec.tuning.sharding_stage:
        return ours
    try:
        from llmperf_zero.plugin import llmperf_worker_env as zero_env
    except ImportError:  # then the plan has a problem that says so
        return ours
    return {**ours, **zero_env(plan)}


@llmperf.hookimpl
def llmperf_build_trainer(plan: Plan, device: Device) -> Trainer:
    """Frozen model, adapters, data and AdamW; DistributedDataParallel or DeepSpeed's engine around them."""
    if plan.spec.tuning.sharding_stage:
        from llmperf_lora.zero import LoraZeroTrainer

        return LoraZeroTrainer(plan, device)
    from llmperf_lora.ddp import LoraDdpTrainer

    return LoraDdpTrainer(plan, device)


@llmperf.hookimpl
def llmperf_trace_step(plan: Plan, rank: int) -> StepTrace:
    """The trainer on torch's fake tensors."""
    from llmperf_pytorch.tracing import traced_step

    if not plan.spec.tuning.sharding_stage:
        return traced_step(plan, rank, llmperf_build_trainer)
    from llmperf_zero.tracing import STAND_INS, with_micro_batches

    return traced_step(plan, rank, llmperf_build_trainer, with_micro_batches=with_micro_batches, stand_ins=STAND_INS)
