"""One rank of the overhead benchmark: one trainer, stepped by llmperf's loop and by a bare one in turn."""

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
from llmperf.types import Device, Plan, Trainer

STEPS = 5
"""In one stretch."""


def bare(trainer: Trainer, device: Device) -> float:
    """Seconds of a stretch with nothing around it but two clock readings."""
    device.synchronize()
    start = time.perf_counter()
    for _ in range(STEPS):
        trainer.train_step()
    device.synchronize()
    return time.perf_counter() - start


def main() -> None:
    folder, pairs = Path(sys.argv[1]), int(sys.argv[2])
    plan = load(folder / "plan.json", Plan)
    plugins = load_for(plan.vendor, plan.spec.tuning.framework)
    rank = int(os.environ["RANK"])
    seconds: list[tuple[float, float]] = []
    with (
        Recorder(folder / f"rank-{rank}.jsonl", folder / f"reserve-{rank}") as recorder,
        plugins.ask("llmperf_setup_device", plan=plan, local_rank=int(os.environ["LOCAL_RANK"])) as device,
        plugins.ask("llmperf_build_trainer", plan=plan, device=device) as trainer,
    ):
        loop = MeasuredLoop(trainer, device, recorder, rank)
        bare(trainer, device)
        for pair in range(pairs):
            timed = {}
            for ours in (True, False) if pair % 2 == 0 else (False, True):
                timed[ours] = loop.run(STEPS, 0, lambda *_: None).seconds if ours else bare(trainer, device)
            seconds.append((timed[True], timed[False]))
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
