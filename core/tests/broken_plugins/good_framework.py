"""A framework plugin without a fault: on top of a Llama that stays as it is, which token follows which is learnt."""

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
        yield Problem(where=f"framework.{name}", message="abacus has no options")


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
    return {"ABACUS_MODE": "quiet"}


@hookimpl
def llmperf_build_trainer(plan, device):
    return Abacus(plan)


class Abacus:
    rate = 20.0
    closed = False

    def __init__(self, plan):
        import numpy
        from llmperf.testing.reference import Llama

        self.numpy = numpy
        self.batch = plan.batch
        self.rank, self.ranks, self.step = int(os.environ["RANK"]), plan.layout.world_size, 0
        self.batches = llmperf.open_batches(plan, plan.layout.data_parallel_rank(self.rank))
        self.llama = Llama(plan.spec.model, seed=plan.spec.contract.seed)
        self.scores = numpy.zeros((plan.spec.model.vocab_size, plan.spec.model.vocab_size))
        self.change = numpy.zeros_like(self.scores)

    def train_step(self):
        losses, tokens = [], 0
        for _ in range(self.batch.gradient_accumulation):
            loss, count = self.learn(self.batches.next_micro_batch())
            losses.append(loss)
            tokens += count
        self.scores -= self.rate * self.of_all_ranks(self.change) / self.batch.gradient_accumulation
        self.change[:] = 0
        self.step += 1
        return StepOutput(loss=sum(losses) / len(losses), tokens=tokens)

    def learn(self, rows):
        before, after = rows[:, :-1].reshape(-1), rows[:, 1:].reshape(-1)
        logits = self.llama.logits(rows[:, :-1]).reshape(len(after), -1) + self.scores[before]
        exponents = self.numpy.exp(logits)
        chances = exponents / exponents.sum(axis=1, keepdims=True)
        places = self.numpy.arange(len(after))
        loss = float(-self.numpy.log(chances[places, after]).mean())
        chances[places, after] -= 1
        self.numpy.add.at(self.change, before, chances / len(after))
        return loss, len(after)

    def of_all_ranks(self, change):
        names = [Path(os.environ["LLMPERF_RUN_DIR"]) / f"change-{self.step}-{rank}.npy" for rank in range(self.ranks)]
        with open(f"{names[self.rank]}.part", "wb") as file:
            self.numpy.save(file, change)
        os.rename(f"{names[self.rank]}.part", names[self.rank])
        while not all(one.exists() for one in names):
            time.sleep(0.001)
        return sum(self.numpy.load(one) for one in names) / self.ranks

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
