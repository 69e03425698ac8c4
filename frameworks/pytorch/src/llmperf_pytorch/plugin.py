"""llmperf framework plugin `pytorch`: plain PyTorch, data parallel (DDP)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import llmperf

if TYPE_CHECKING:
    from llmperf.types import Device, Facts, PairEnd, Plan, Probe, RunSpec, ScreeningCheck, Trainer, WorkerPlan


@llmperf.hookimpl
def llmperf_resources() -> Iterable[Path]:
    """The overlay that takes sharding out of cases made for another framework."""
    return [Path(__file__).parent / "data"]


@llmperf.hookimpl
def llmperf_facts() -> Facts:
    """Those of torch."""
    from llmperf_pytorch.facts import torch_facts

    return torch_facts()


@llmperf.hookimpl
def llmperf_plan_workers(spec: RunSpec, probe: Probe) -> WorkerPlan:
    """One rank a device, each with the whole model."""
    from llmperf.types import Needs, WorkerPlan

    from llmperf_pytorch.kernel_limits import used_fused_ops
    from llmperf_pytorch.limits import common_problems, sharding_problems

    return WorkerPlan(
        layout=llmperf.standard_layout(spec),
        needs=Needs(precision=spec.contract.precision, runtime="torch", features=llmperf.needed_features(spec, probe)),
        agent=llmperf.agent_argv(),
        padding=True,
        weights_in_fp32=True,
        fused_ops=used_fused_ops(spec),
        problems=(
            *common_problems("pytorch", spec, probe),
            *sharding_problems(spec),
            *llmperf.option_problems("pytorch", spec.framework, {}),
        ),
    )


@llmperf.hookimpl
def llmperf_worker_env(plan: Plan) -> Mapping[str, str]:
    """The network interface of the ranks, if there are several nodes."""
    return llmperf.interface_variables(plan, "GLOO_SOCKET_IFNAME")


@llmperf.hookimpl
def llmperf_screening() -> Iterable[ScreeningCheck]:
    """Matrix product and memory copy of each accelerator, and an all-reduce between two nodes."""
    from llmperf.types import ScreeningCheck

    def check(name: str, unit: str, scope: Literal["device", "pair"], tolerance: float) -> ScreeningCheck:
        def measure(argument: int | PairEnd) -> float:
            from llmperf_pytorch import screening

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
    """Model, data and AdamW; DistributedDataParallel where there are several ranks."""
    from llmperf_pytorch.ddp import DdpTrainer

    return DdpTrainer(plan, device)
