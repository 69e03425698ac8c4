"""llmperf framework plugin `paddle`: PaddlePaddle's fleet with tensor, pipeline and sharded data parallel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import llmperf

if TYPE_CHECKING:
    from llmperf.types import Device, Facts, Plan, Probe, RunSpec, Trainer, WorkerPlan


@llmperf.hookimpl
def llmperf_facts() -> Facts:
    """The variables, waiting calls and packages of Paddle, and the check for a build of it."""
    from llmperf.types import Facts, HostCheck

    from llmperf_paddle.installed import build_problem
    from llmperf_paddle.limits import OPTIONS

    return Facts(
        environment_prefixes=("FLAGS_", "GLOO_", "XCCL_"),
        waiting_frames=("paddle/distributed/", "paddle/base/dygraph/tensor_patch_methods.py in backward"),
        packages=("paddle",),
        host_checks=(HostCheck(subject="Paddle", problem=build_problem, required=True),),
        framework_options=llmperf.option_choices(OPTIONS),
    )


@llmperf.hookimpl
def llmperf_plan_workers(spec: RunSpec, probe: Probe) -> WorkerPlan:
    """One rank a device, started by llmperf's own agent with Paddle's variables set."""
    from llmperf.types import Needs, WorkerPlan

    from llmperf_paddle.limits import notes, problems, rank_variables, used_fused_ops

    layout = llmperf.standard_layout(spec)
    return WorkerPlan(
        layout=layout,
        needs=Needs(
            precision=llmperf.precision_recipe(spec.contract.precision).products,
            runtime="paddle",
            features=llmperf.needed_features(spec, probe),
        ),
        agent=llmperf.agent_argv(),
        fused_ops=used_fused_ops(spec, probe),
        rank_env=rank_variables(spec, probe, layout),
        input_copies=True,  # fleet's ColumnParallelLinear copies it by c_identity
        notes=notes(spec, probe, layout),
        problems=tuple(problems(spec, probe, layout)),
    )


@llmperf.hookimpl
def llmperf_worker_env(plan: Plan) -> Mapping[str, str]:
    """The network interface of the ranks, if there are several nodes."""
    return llmperf.interface_variables(plan, "GLOO_SOCKET_IFNAME")


@llmperf.hookimpl
def llmperf_build_trainer(plan: Plan, device: Device) -> Trainer:
    """Model, data and AdamW, distributed by fleet where there are several ranks."""
    from llmperf_paddle.trainer import PaddleTrainer

    return PaddleTrainer(plan, device)
