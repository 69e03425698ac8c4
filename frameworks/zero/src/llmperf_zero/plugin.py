"""llmperf framework plugin `zero`: DeepSpeed ZeRO, data parallel with optimiser states, gradients, weights sharded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import llmperf
from llmperf_torchkit.hooks import llmperf_profile_steps as llmperf_profile_steps

if TYPE_CHECKING:
    from llmperf.types import (
        Device,
        Facts,
        Layout,
        Plan,
        Probe,
        Problem,
        RunSpec,
        StepTrace,
        Trainer,
        WorkerPlan,
    )


@llmperf.hookimpl
def llmperf_facts() -> Facts:
    """Those of torch and DeepSpeed."""
    from dataclasses import replace

    from llmperf_zero.options import OPTIONS, deepspeed_facts

    return replace(deepspeed_facts(), framework_options=llmperf.option_choices(OPTIONS))


@llmperf.hookimpl
def llmperf_plan_workers(spec: RunSpec, probe: Probe) -> WorkerPlan:
    """One rank a device, and DeepSpeed's configuration as a file."""
    from llmperf_pytorch.kernel_limits import RECIPES, expert_notes, used_fused_ops
    from llmperf_pytorch.limits import TORCH_SETTINGS, common_problems
    from llmperf_torchkit.limits import torch_worker

    from llmperf_zero.config import CONFIG, ds_config, with_held_memory
    from llmperf_zero.options import problems_of_options

    layout = llmperf.standard_layout(spec)
    worker = torch_worker(
        spec,
        probe,
        layout,
        padding=True,
        settings=("accumulation_dtype", "emulate_precision", *TORCH_SETTINGS),
        routing_tables=True,
        precisions=RECIPES,
        fused_ops=used_fused_ops("zero", spec),
        notes=expert_notes(spec, probe),
        files={CONFIG: ds_config(spec, layout.data_parallel)},
        problems=(
            *common_problems("zero", spec, probe),
            *degree_problems(layout),
            *accumulation_problems("zero", spec),
            *precision_problems(spec),
            *problems_of_options(spec, probe),
        ),
    )
    return worker if worker.problems else with_held_memory(worker, spec)


def precision_problems(spec: RunSpec) -> Iterator[Problem]:
    """Recipes at stages at which DeepSpeed cannot train by them."""
    from llmperf_zero.config import without_masters
    from llmperf_zero.options import offloads

    stage, recipe = spec.tuning.sharding_stage, llmperf.precision_recipe(spec.contract.precision)

    def problem(reason: str, nearest: str) -> Problem:
        message = f"{recipe.name}: {reason}; nearest: --set {nearest}"
        return llmperf.setting_problem("zero", "contract.precision", message)

    if without_masters(spec) and stage == 0:
        yield problem("DeepSpeed keeps float32 master weights at stage 0", "sharding_stage=1")
    if without_masters(spec) and offloads(spec) != "none":
        yield problem("offloaded states are float32", "precision=bf16")
    if recipe.products == "fp8" and stage == 3:
        yield problem("ZeRO-3 gathers weights in hooks that projections in fp8 do not call", "sharding_stage=2")


def degree_problems(layout: Layout) -> Iterator[Problem]:
    """ZeRO over some of the data-parallel ranks only."""

    if layout.sharding_stage and layout.sharding_degree != layout.data_parallel:
        message = (
            f"ZeRO shards over all data-parallel ranks: expected {layout.data_parallel}, found"
            f" {layout.sharding_degree}; the nearest is {layout.data_parallel}"
        )
        yield llmperf.setting_problem("zero", "tuning.sharding_degree", message)


def accumulation_problems(framework: str, spec: RunSpec) -> Iterator[Problem]:
    """Sums in float32 at stage 0, where DeepSpeed has 16-bit gradients only."""

    from llmperf_zero.config import sums_in_fp32

    if sums_in_fp32(spec) and spec.tuning.sharding_stage == 0:
        message = "DeepSpeed adds up 16-bit gradients in 16 bits at sharding stage 0: expected auto, found fp32"
        message = f"{message}; nearest: --set sharding_stage=1"
        yield llmperf.setting_problem(framework, "tuning.accumulation_dtype", message)


@llmperf.hookimpl
def llmperf_worker_env(plan: Plan) -> Mapping[str, str]:
    """Where DeepSpeed compiles, the network interface, and no search for accelerators where there are none.

    DeepSpeed imports MLflow where it is installed, which otherwise keeps an identity of its user and reports its use.
    """
    from llmperf_zero.extensions import extensions_dir

    interface = llmperf.interface_variables(plan, "GLOO_SOCKET_IFNAME")
    env = {"TORCH_EXTENSIONS_DIR": str(extensions_dir()), "MLFLOW_DISABLE_TELEMETRY": "true", **interface}
    return {**env, "DS_ACCELERATOR": "cpu"} if plan.probe.on_cpu else env


@llmperf.hookimpl
def llmperf_build_trainer(plan: Plan, device: Device) -> Trainer:
    """Model, data, AdamW and DeepSpeed's engine around them."""
    from llmperf_zero.trainer import ZeroTrainer

    return ZeroTrainer(plan, device)


@llmperf.hookimpl
def llmperf_trace_step(plan: Plan, rank: int) -> StepTrace:
    """The trainer and DeepSpeed's engine on torch's fake tensors; not of states that the host holds."""
    from llmperf.errors import UserError

    from llmperf_zero.options import offloads

    if offloads(plan.spec) != "none":
        raise UserError("zero does not trace steps with states on the host: expected framework.offload=none")
    from llmperf_pytorch.tracing import traced_step

    from llmperf_zero.tracing import STAND_INS, with_micro_batches

    return traced_step(plan, rank, llmperf_build_trainer, with_micro_batches=with_micro_batches, stand_ins=STAND_INS)
