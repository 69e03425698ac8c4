"""A framework made by `llmperf new framework`: most of what it uses is imported when a hook is called."""

import llmperf


@llmperf.hookimpl
def llmperf_plan_workers(spec, probe):
    from llmperf.types import Needs, WorkerPlan
    from llmperf_pytorch.limits import needed_features

    return WorkerPlan(
        layout=llmperf.standard_layout(spec),
        needs=Needs(precision=spec.contract.precision, runtime="torch", features=needed_features(spec, probe)),
        agent=llmperf.agent_argv(),
    )
