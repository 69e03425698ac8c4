"""Trainers as other people write them, traced: `python other_trainers.py NAME...` prints a line of JSON for each.

Each is traced in a process of its own, forked when torch has been imported.
"""

import json
import os
import sys
from functools import partial

import llmperf
import torch
from llmperf.planning.build import plan_only
from llmperf.planning.states import Selection, Site
from llmperf.types import StepOutput
from llmperf_estimate.traces import wrong_trace
from llmperf_pytorch import build_model, count_parameters, deferred, traced_step
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    """torch's own DistributedDataParallel and AdamW, with options."""

    def __init__(self, plan, device, *, on_host=False, parallel=True, views=False, fused=True, foreach=None):
        self.device = torch.device("cpu" if on_host else device.places["torch"])
        self.plan = plan
        model = build_model(plan.spec, self.device)
        self.parameter_count = count_parameters(model)
        self.model = DistributedDataParallel(model, gradient_as_bucket_view=views) if parallel else model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused, foreach=foreach)
        self.batches = llmperf.open_batches(plan, 0)

    def train_step(self):
        total = torch.zeros((), device=self.device)
        for _ in range(self.plan.batch.gradient_accumulation):
            ids = torch.as_tensor(self.batches.next_micro_batch()).to(self.device)
            loss = self.model(ids[:, :-1], ids[:, 1:].contiguous())
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return StepOutput(loss=deferred(total), tokens=self.batches.learnt)

    def __exit__(self, *_):
        self.batches.close()


KINDS = {
    "own": {},
    "views": {"views": True},
    "separate updates": {"fused": False, "foreach": False},
    "updates of lists": {"fused": False, "foreach": True},
    "on the host": {"on_host": True, "fused": False},
    "alone": {"parallel": False},
}


def figures(name):
    """What the trace of one of them says."""
    plan = plan_only(Selection("default", framework="pytorch"), Site(on="A100-SXM4-80GB:1x2")).plan
    trace = traced_step(plan, 0, partial(Trainer, **KINDS[name]))
    return {
        "wrong": wrong_trace(trace, plan, 0),
        "peak": trace.memory.peak_bytes,
        "collectives": sorted({collective.collective for collective in trace.collectives}),
        "updates": sorted({one.name for one in trace.operations if one.kind == "optimizer"}),
        "waits": [wait.operation for wait in trace.host_waits],
    }


if __name__ == "__main__":
    for chosen in sys.argv[1:]:
        child = os.fork()
        if child == 0:
            print(json.dumps(figures(chosen)), flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"failed: {chosen}")
