"""A framework that runs a script, unbuffered, whose lines have the seconds of each step."""

import sys
import time

import llmperf
from llmperf import hookimpl
from llmperf.types import LoggedFacts, LoggedStep, Needs, Script, WorkerPlan


@hookimpl
def llmperf_plan_workers(spec, probe):
    return WorkerPlan(
        layout=llmperf.standard_layout(spec),
        needs=Needs(precision=spec.contract.precision, runtime="torch"),
        agent=llmperf.agent_argv(),
        rank_env={"PYTHONUNBUFFERED": "1", "TONGS_RANK": "{rank}"},
        script=Script(command=(sys.executable, __file__, str(spec.contract.steps)), step_rank=0),
    )


@hookimpl
def llmperf_parse_log(line):
    words = line.split()
    if words[:1] == ["heat"]:
        return LoggedStep(step=int(words[1]), seconds=float(words[2]), loss=float(words[3]))
    if words[:1] == ["held"]:
        return LoggedFacts(peak_memory_bytes=int(words[1]))
    return None


if __name__ == "__main__":
    print("held 1000000")
    for step in range(1, int(sys.argv[1]) + 1):
        time.sleep(0.03)
        print(f"heat {step} 0.03 {9.0 - 0.01 * step:.4f}")
