import llmperf
from llmperf.types import LoggedFacts, LoggedFailure, LoggedStep, Needs, ProfiledOperation, StepProfile, WorkerPlan


@llmperf.hookimpl
def llmperf_plan_workers(spec, probe):
    return WorkerPlan(
        layout=llmperf.standard_layout(spec),
        needs=Needs(precision=spec.contract.precision, runtime="stub"),
        agent=llmperf.agent_argv(),
    )


@llmperf.hookimpl
def llmperf_trace_step(plan, rank):
    from llmperf_stub.trace import stub_trace

    return stub_trace(plan, rank)


@llmperf.hookimpl
def llmperf_build_trainer(plan, device):
    from llmperf_stub.trainer import StubTrainer

    return StubTrainer(plan)


@llmperf.hookimpl
def llmperf_timed_operations(plan, device):
    from llmperf_stub.operations import StubOperations

    return StubOperations(plan)


@llmperf.hookimpl
def llmperf_parse_log(line):
    words = line.split()
    if words[:1] == ["did"]:
        loss = float(words[3])
        seconds = None if words[2] == "-" else float(words[2])
        tokens = int(words[4]) if len(words) > 4 else None
        step = LoggedStep(step=int(words[1]), seconds=seconds, loss=loss, grad_norm=loss, tokens=tokens)
        return (step, *answers_of(words[5:])) if words[5:] else step
    return answers_of(words)


def answers_of(words):
    if words[:1] == ["held"]:
        return (LoggedFacts(peak_memory_bytes=int(words[1]), packages={"script": words[2]}),)
    if words[:1] == ["failed"]:
        return (LoggedFailure(exception=words[1], message=" ".join(words[2:])),)
    return ()


@llmperf.hookimpl
def llmperf_profile_steps(plan, device, step, steps, trace):
    for _ in range(steps):
        step()
    if trace is not None:
        trace.write_bytes(b"")
    operations = (
        ProfiledOperation(name="stub.mm", kind="matmul", seconds=0.3, calls=2),
        ProfiledOperation(name="stub.bmm", kind="matmul", seconds=0.2, calls=1),
        ProfiledOperation(name="stub.add", kind="elementwise", seconds=0.4, calls=9),
    )
    return StepProfile(
        rank=0,
        steps=steps,
        profiler="stub",
        clock="device",
        step_seconds=1.0,
        operations=operations,
        communication_seconds=0.1,
        overlapped_seconds=0.05,
        idle_seconds=0.05,
        trace=None if trace is None else trace.name,
    )
