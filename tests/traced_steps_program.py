"""Traces small cases one after another; prints a JSON line with the figures of each.

Each in a process of its own, as `llmperf estimate` does it, forked when all has been imported.
"""

import json
import os
import sys
from importlib import import_module

from llmperf.accounting.counting import forward_flops
from llmperf.planning.build import plan_only
from llmperf.planning.states import Selection, Site
from llmperf_estimate.traces import wrong_trace

IMPORTED = (
    "llmperf_torchkit.tracing.step", "torch._dynamo", "torch._inductor.compile_fx",
    "transformers.models.llama.modeling_llama", "peft", "deepspeed", "deepspeed.runtime.zero.muon.muon_optimizer",
    "deepspeed.runtime.zero.stage3",
)  # fmt: skip
"""What every process would import for itself; DeepSpeed's muon imports inductor."""


def traced(device, rank, framework, settings):
    """The figures of one trace."""
    chosen = (f"tuning.framework={framework}", *settings)
    outcome = plan_only(Selection("default", settings=chosen), Site(on=device))
    plan = outcome.plan
    assert plan is not None, outcome.problems
    trace = import_module(f"llmperf_{framework}.plugin").llmperf_trace_step(plan, rank)
    accumulation = plan.batch.gradient_accumulation

    def total(operations, field):
        return sum(getattr(one, field) * (one.per_micro_batch * accumulation + one.per_step) for one in operations)

    def forward(kind):
        return [one for one in trace.operations if one.kind == kind and one.phase == "forward"]

    def of_phase(phase, field):
        return total([one for one in trace.operations if one.phase == phase], field)

    phases = ("forward", "backward", "update")
    components = forward_flops(plan.spec.model, plan.spec.contract.seq_len, "windowed")
    tokens = plan.batch.tokens_per_step / plan.layout.world_size
    stated_attention = components.pop("attention") * tokens
    matmuls = [one for one in trace.operations if one.kind == "matmul"]
    return {
        "waits": {f"{wait.where} {wait.operation}": wait.per_step for wait in trace.host_waits},
        "matmul_flops": total(matmuls, "flops"),
        "stated_matmul_flops": 3 * sum(components.values()) * tokens,
        "attention_flops": total(forward("attention"), "flops"),
        "stated_attention_flops": stated_attention,
        "kernels": {phase: of_phase(phase, "kernels") for phase in phases},
        "bytes": {phase: of_phase(phase, "bytes") for phase in phases},
        "optimizers": [one.name for one in trace.operations if one.name.startswith("aten._fused_adam")],
        "collectives": sorted({(one.collective, len(one.ranks), one.overlaps) for one in trace.collectives}),
        "peak": trace.memory.peak_bytes,
        "at_peak": dict(trace.memory.at_peak),
        "between": dict(trace.memory.between_steps),
        "wrong": wrong_trace(trace, plan, rank),
    }


if __name__ == "__main__":
    for name in IMPORTED:
        import_module(name)
    for task in json.loads(sys.argv[1]):
        child = os.fork()
        if child == 0:
            print("TRACE " + json.dumps(traced(*task)), flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"failed: {task}")
