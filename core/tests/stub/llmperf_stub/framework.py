from __future__ import annotations

import llmperf


@llmperf.hookimpl
def llmperf_build_trainer(plan, device):
    from llmperf_stub.trainer import StubTrainer

    return StubTrainer(plan)
