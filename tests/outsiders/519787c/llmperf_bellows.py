"""A framework with a trainer of its own, and problems without codes."""

import time

import llmperf
from llmperf import hookimpl
from llmperf.types import Needs, Problem, StepOutput, WorkerPlan


@hookimpl
def llmperf_plan_workers(spec, probe):
    problems = []
    if spec.contract.precision != "fp32":
        message = f"bellows trains in fp32 only, found {spec.contract.precision}; the nearest is fp32"
        problems.append(Problem(where="contract.precision", message=message))
    return WorkerPlan(
        layout=llmperf.standard_layout(spec),
        needs=Needs(precision="fp32", runtime="torch"),
        agent=llmperf.agent_argv(),
        problems=tuple(problems),
    )


class Bellows:
    def __init__(self, plan):
        self.plan, self.step = plan, 0

    def train_step(self):
        self.step += 1
        time.sleep(0.02)
        batch = self.plan.batch
        return StepOutput(loss=9.0 - 0.01 * self.step, tokens=batch.tokens_per_step // batch.data_parallel)

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


@hookimpl
def llmperf_build_trainer(plan, device):
    return Bellows(plan)
