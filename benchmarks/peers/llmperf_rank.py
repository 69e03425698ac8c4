"""One rank of llmperf's own loop: the wall and CPU time of its measured steps, as the other sides print them."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from llmperf.files.json_files import load
from llmperf.measuring.loop import MeasuredLoop
from llmperf.plugins.loading import load_for
from llmperf.runfolder.recorder import Recorder
from llmperf.types import Plan


def main() -> None:
    folder = Path(sys.argv[1])
    plan = load(folder / "plan.json", Plan)
    contract = plan.spec.contract
    plugins = load_for(plan.vendor, plan.spec.tuning.framework)
    rank = int(os.environ["RANK"])
    with (
        Recorder(folder / f"rank-{rank}.jsonl", folder / f"reserve-{rank}") as recorder,
        plugins.ask("llmperf_setup_device", plan=plan, local_rank=int(os.environ["LOCAL_RANK"])) as device,
        plugins.ask("llmperf_build_trainer", plan=plan, device=device) as trainer,
    ):
        loop = MeasuredLoop(trainer, device, recorder, rank)
        loop.run(contract.warmup_steps, 0, lambda *_: None)
        used = time.process_time()
        seconds = loop.run(contract.steps - contract.warmup_steps, 0, lambda *_: None).seconds
        used = time.process_time() - used
    print(json.dumps({"seconds": seconds, "cpu_seconds": used}))


if __name__ == "__main__":
    main()
