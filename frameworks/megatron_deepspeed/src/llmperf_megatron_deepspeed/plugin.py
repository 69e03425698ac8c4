"""llmperf framework plugin `megatron_deepspeed`: tensor x pipeline x data parallel training on DeepSpeed.

`framework.engine` says who trains: `checkout`, a user's own checkout of Megatron-DeepSpeed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import llmperf

if TYPE_CHECKING:
    from llmperf.types import LoggedFacts, LoggedFailure, LoggedStep, Plan, Probe, RunSpec, WorkerPlan

CHECKOUT = "checkout"


@llmperf.hookimpl
def llmperf_plan_workers(spec: RunSpec, probe: Probe) -> WorkerPlan:
    """As the chosen engine has it."""
    from dataclasses import replace

    from llmperf.types import Problem

    from llmperf_megatron_deepspeed.checkout.plan import plan_checkout

    planned = plan_checkout(spec, probe)
    if spec.framework.get("engine") == CHECKOUT:
        return planned
    message = "expected 'checkout', the only engine of this version; --set framework.engine=checkout"
    problem = Problem(where="framework.engine", message=message)
    return replace(planned, problems=(problem, *planned.problems))


@llmperf.hookimpl
def llmperf_worker_env(plan: Plan) -> Mapping[str, str]:
    """Where DeepSpeed compiles, and that it should look for no accelerator where there is none."""
    from llmperf_zero.plugin import llmperf_worker_env as of_deepspeed

    return of_deepspeed(plan)


@llmperf.hookimpl
def llmperf_parse_log(line: str) -> LoggedStep | LoggedFacts | LoggedFailure | None:
    """What engine `checkout` reads in the output of `pretrain_gpt.py`."""
    from llmperf_megatron_deepspeed.checkout.log import parse_log

    return parse_log(line)
