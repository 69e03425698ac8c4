"""A framework plugin without a fault: a Llama in NumPy, whose ranks hand their gradients over in files."""

import math
import os
import time
from dataclasses import replace  # noqa: F401
from pathlib import Path

import llmperf
from llmperf import hookimpl
from llmperf.types import Needs, Problem, StepOutput, WorkerPlan

CALLS, PLANS = [], []


@hookimpl
def llmperf_resources():
    return [Path(__file__).parent / "data"]


def problems(spec):
    for name in spec.framework:
        yield Problem(code="abacus.option", where=f"framework.{name}", message="abacus has no options")


@hookimpl
def llmperf_plan_workers(spec, probe):
    PLANS.append(spec)
    return WorkerPlan(
        layout=llmperf.standard_layout(spec),
        needs=Needs(precision=spec.contract.precision, runtime="torch"),
        agent=llmperf.agent_argv(),
        rank_env={"ABACUS_RANK": "{rank}"},
        files={"abacus.json": "{}"},
        problems=tuple(problems(spec)),
    )


@hookimpl
def llmperf_worker_env(plan):
    return {"ABACUS_MODE": "quiet", "OPENBLAS_NUM_THREADS": "1"}  # the ranks share the cores


@hookimpl
def llmperf_build_trainer(plan, device):
    return Abacus(plan)


@hookimpl
def llmperf_parse_log(line):
    return ()


class Abacus:
    nats = 1.0
    closed = False

    def __init__(self, plan):
        import numpy
        from llmperf_testing.reference import AdamW, Llama

        contract = plan.spec.contract
        self.numpy = numpy
        self.batch, self.sequences = plan.batch, []
        self.rank, self.ranks, self.step = int(os.environ["RANK"]), plan.layout.world_size, 0
        self.batches = llmperf.open_batches(plan, plan.layout.data_parallel_rank(self.rank))
        self.llama = Llama(plan.spec.model, seed=contract.seed)
        self.parameter_count = sum(one.size for one in self.llama.weights.values())
        self.adamw = AdamW(self.llama.weights, contract.optimizer, contract.steps)

    def train_step(self):
        losses, tokens = [], 0
        for _ in range(self.batch.gradient_accumulation):
            rows = self.batches.next_micro_batch()
            losses.append(self.nats * self.llama.learn(rows))
            tokens += rows[:, 1:].size
            if self.step == 0:
                self.sequences += self.llama.row_losses
        sums = self.of_all_ranks(self.llama.gradients)
        norm = self.adamw.update({name: one / self.batch.gradient_accumulation for name, one in sums.items()})
        self.llama.gradients.clear()
        self.step += 1
        return StepOutput(loss=sum(losses) / len(losses), tokens=tokens, grad_norm=norm)

    def first_losses(self):
        return self.sequences

    def of_all_ranks(self, gradients):
        names = [Path(os.environ["LLMPERF_RUN_DIR"]) / f"gradients-{self.step}-{one}" for one in range(self.ranks)]
        with open(f"{names[self.rank]}.part", "wb") as file:
            self.numpy.savez(file, **gradients)
        os.rename(f"{names[self.rank]}.part", names[self.rank])
        while not all(one.exists() for one in names):
            time.sleep(0.001)
        told = [self.numpy.load(one) for one in names]
        return {name: sum(one[name] for one in told) / self.ranks for name in gradients}

    def evaluate(self):
        return {"perplexity": math.exp(1.0)}

    def close(self):
        self.closed = True

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is None:
            self.close()


# END
