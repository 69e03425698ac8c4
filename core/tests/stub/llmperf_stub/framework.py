from __future__ import annotations

import llmperf
from llmperf.types import LoggedFacts, LoggedFailure, LoggedStep


@llmperf.hookimpl
def llmperf_build_trainer(plan, device):
    from llmperf_stub.trainer import StubTrainer

    return StubTrainer(plan)


@llmperf.hookimpl
def llmperf_parse_log(line):
    words = line.split()
    if words[:1] == ["did"]:
        return LoggedStep(step=int(words[1]), seconds=float(words[2]), loss=float(words[3]), grad_norm=float(words[3]))
    if words[:1] == ["odd"]:
        return tuple(words)
    if words[:1] == ["held"]:
        return LoggedFacts(peak_memory_bytes=int(words[1]), packages={"script": words[2]})
    if words[:1] == ["failed"]:
        return LoggedFailure(exception=words[1], message=" ".join(words[2:]))
    return None
