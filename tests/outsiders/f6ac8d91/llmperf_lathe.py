"""A framework with a trainer of its own."""

import time

import llmperf
from llmperf import hookimpl
from llmperf.types import Needs, Problem, StepOutput, WorkerPlan


@hookimpl
def llmperf_plan_workers(spec, probe):
    problems = []
    if spec.contract.precision != "fp32":
        message = f"lathe trains in fp32 only, found {spec.contract.precision}; the nearest is fp32"
        problems.append(Problem(code="lathe.precision", where="contract.precision", message=message))
    return WorkerPlan(
        layout=llmperf.standard_layout(spec),
        needs=Needs(precision="fp32", runtime="process", features=llmperf.needed_features(spec, probe)),
        agent=llmperf.agent_argv(),
        problems=tuple(problems),
    )


class Lathe:
    def __init__(self, plan):
        self.kernels = {"attention": "none"}
        self.plan, self.step = plan, 0
        self.parameter_count = plan.flops.parameters
        self.batches = llmperf.open_batches(plan, 0)

    def train_step(self):
        self.step += 1
        time.sleep(0.02)
        tokens = 0
        for _ in range(self.plan.batch.gradient_accumulation):
            self.batches.next_micro_batch()
            tokens += self.batches.learnt
        return StepOutput(loss=9.0 - 0.01 * self.step, tokens=tokens)

    def evaluate(self):
        return {"accuracy": 0.5}

    def close(self):
        self.batches.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


@hookimpl
def llmperf_build_trainer(plan, device):
    return Lathe(plan)
