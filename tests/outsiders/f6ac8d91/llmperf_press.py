"""A framework that runs a script, whose lines have no seconds."""

import sys
import time

import llmperf
from llmperf import hookimpl
from llmperf.types import LoggedFacts, LoggedStep, Needs, Script, WorkerPlan


@hookimpl
def llmperf_plan_workers(spec, probe):
    return WorkerPlan(
        layout=llmperf.standard_layout(spec),
        needs=Needs(precision=spec.contract.precision, runtime="process"),
        agent=llmperf.agent_argv(),
        script=Script(command=("{python}", __file__, str(spec.contract.steps)), step_rank=0),
    )


@hookimpl
def llmperf_parse_log(line):
    words = line.split()
    if words[:1] == ["press"]:
        return [LoggedStep(step=int(words[1]), loss=float(words[2])), LoggedFacts(packages={"press": "1.0"})]
    return None


if __name__ == "__main__":
    for step in range(1, int(sys.argv[1]) + 1):
        time.sleep(0.03 + 0.001 * (step % 3))
        print(f"press {step} {9.0 - 0.01 * step:.4f}", flush=True)
