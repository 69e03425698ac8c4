import os
import time

from llmperf.types import HostWait, StepTrace, TracedCollective, TracedMemory, TracedOperation


def stub_trace(plan, rank):
    """`spec.framework`: trace (fails, dies, hangs), peak_mib, host_waits."""
    options = plan.spec.framework
    fault = options.get("trace")
    if fault == "fails":
        raise RuntimeError("no tensors without data")
    if fault == "dies":
        os._exit(7)
    if fault == "hangs":
        time.sleep(600)
    print("output of the tracer")
    peak = options.get("peak_mib", 256) * 2**20
    waits = HostWait(where="llmperf_stub/trainer.py:7", operation="Tensor.item", per_step=1.0)

    def product(phase, count):
        return TracedOperation(
            name="stub.mm", kind="matmul", phase=phase, dtype="fp32", flops=2e9, bytes=1000, per_micro_batch=count
        )

    return StepTrace(
        rank=rank,
        method="fake tensors",
        traced_micro_batches=2,
        operations=(
            product("forward", 10),
            product("backward", 20),
            TracedOperation(
                name="stub.norm", kind="norm", phase="forward", dtype="fp32", flops=0, bytes=10**8, per_micro_batch=4
            ),
            TracedOperation(
                name="stub.adamw", kind="optimizer", phase="update", dtype="fp32", flops=0, bytes=10**9, per_step=1
            ),
        ),
        collectives=(
            TracedCollective(
                collective="all_reduce",
                bytes=10**7,
                ranks=tuple(range(plan.layout.world_size)),
                phase="backward",
                overlaps=False,
                per_step=1,
            ),
        ),
        host_waits=(waits,) if options.get("host_waits") else (),
        memory=TracedMemory(
            peak_bytes=peak,
            at_peak={"parameters": peak // 2, "activations": peak - peak // 2},
            phase="backward",
            operation="stub.mm (8, 8)",
            between_steps={"parameters": peak // 2},
        ),
        stand_ins=("device: none",),
    )
