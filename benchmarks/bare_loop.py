"""One rank of the bare loop: the same trainer, stepped with nothing around it but two clock readings."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from llmperf.documents import load
from llmperf.plugins import load_for
from llmperf.types import Plan


def main() -> None:
    plan = load(Path(sys.argv[1]) / "plan.json", Plan)
    plugins = load_for(plan.vendor, plan.spec.tuning.framework)
    contract = plan.spec.contract
    with (
        plugins.ask("llmperf_setup_device", plan=plan, local_rank=int(os.environ["LOCAL_RANK"])) as device,
        plugins.ask("llmperf_build_trainer", plan=plan, device=device) as trainer,
    ):
        for _ in range(contract.warmup_steps):
            trainer.train_step()
        device.synchronize()
        start = time.perf_counter()
        for _ in range(contract.steps - contract.warmup_steps):
            trainer.train_step()
        device.synchronize()
        seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
