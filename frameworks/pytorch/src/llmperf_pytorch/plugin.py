"""llmperf framework plugin `pytorch`: plain PyTorch, replicated (DDP) or sharded (FSDP2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import llmperf
from llmperf_torchkit.hooks import llmperf_profile_steps as llmperf_profile_steps
from llmperf_torchkit.hooks import llmperf_worker_env as llmperf_worker_env

if TYPE_CHECKING:
    from llmperf.types import (
        Device,
        Facts,
        PairEnd,
        Plan,
        Probe,
        RunSpec,
        ScreeningCheck,
        StepTrace,
        TimedOperations,
        Trainer,
        WorkerPlan,
    )


@llmperf.hookimpl
def llmperf_facts() -> Facts:
    """Those of torch."""
    from dataclasses import replace

    from llmperf_torchkit.limits import torch_facts

    from llmperf_pytorch.limits import OPTIONS

    return replace(torch_facts(), framework_options=llmperf.option_choices(OPTIONS))


@llmperf.hookimpl
def llmperf_plan_workers(spec: RunSpec, probe: Probe) -> WorkerPlan:
    """One rank a device; replicas, or ranks that share the weights and the optimiser's states."""
    from llmperf_torchkit.limits import torch_worker

    from llmperf_pytorch.kernel_limits import RECIPES, expert_notes, used_fused_ops
    from llmperf_pytorch.limits import (
        OPTIONS,
        TORCH_SETTINGS,
        common_problems,
        gathered_blocks,
        prefetch_problems,
        shares_model,
        update_bytes_per_parameter,
    )

    layout = llmperf.standard_layout(spec)
    return torch_worker(
        spec,
        probe,
        layout,
        padding=True,
        weights_in_fp32=spec.contract.precision != "bf16_pure" and not shares_model(layout),
        routing_tables=True,
        precisions=RECIPES,
        fused_ops=used_fused_ops("pytorch", spec),
        update_bytes_per_parameter=update_bytes_per_parameter(spec, layout),
        gathered_blocks=gathered_blocks(spec, layout),
        settings=("accumulation_dtype", "emulate_precision", *TORCH_SETTINGS),
        notes=expert_notes(spec, probe),
        problems=(
            *common_problems("pytorch", spec, probe),
            *prefetch_problems(spec, layout),
            *llmperf.option_problems("pytorch", spec.framework, OPTIONS),
        ),
    )


@llmperf.hookimpl
def llmperf_screening() -> Iterable[ScreeningCheck]:
    """Matrix product and memory copy of each accelerator, and an all-reduce between two nodes."""
    from llmperf.types import ScreeningCheck

    def check(name: str, unit: str, scope: Literal["device", "pair"], tolerance: float) -> ScreeningCheck:
        def measure(argument: int | PairEnd) -> float:
            from llmperf_torchkit import screening

            figure: float = getattr(screening, name.replace("-", "_").replace(" ", "_"))(argument)
            return figure

        return ScreeningCheck(name=name, unit=unit, scope=scope, measure=measure, tolerance=tolerance)

    return [
        check("matrix product", "FLOP/s", "device", 0.15),
        check("memory copy", "B/s", "device", 0.15),
        check("all-reduce", "B/s", "pair", 0.30),
    ]


@llmperf.hookimpl
def llmperf_build_trainer(plan: Plan, device: Device) -> Trainer:
    """Model, data and AdamW; with several ranks DistributedDataParallel or, at sharding stages 1 to 3, FSDP2."""
    from llmperf_pytorch.limits import shares_model

    if shares_model(plan.layout):
        from llmperf_pytorch.fsdp import ShardedTrainer

        return ShardedTrainer(plan, device)
    from llmperf_pytorch.ddp import DdpTrainer

    return DdpTrainer(plan, device)


@llmperf.hookimpl
def llmperf_timed_operations(plan: Plan, device: Device) -> TimedOperations:
    """Matrix products, attention, copies and collectives by torch."""
    from llmperf_torchkit.operations import TorchOperations

    return TorchOperations(plan, device)


@llmperf.hookimpl
def llmperf_trace_step(plan: Plan, rank: int) -> StepTrace:
    """The trainer on torch's fake tensors."""
    from llmperf_pytorch.tracing import traced_step

    return traced_step(plan, rank, llmperf_build_trainer)
