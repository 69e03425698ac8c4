"""One rank of the overhead benchmark: one trainer, stepped by llmperf's loop and by a bare one in turn."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from llmperf.types import Device, Trainer
from ranks import own_rank

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
    seconds: list[tuple[float, float]] = []
    with own_rank(Path(sys.argv[1])) as (_, trainer, device, loop):
        bare(trainer, device)
        for pair in range(int(sys.argv[2])):
            timed = {}
            for ours in (True, False) if pair % 2 == 0 else (False, True):
                timed[ours] = loop.run(STEPS, 0, lambda *_: None).seconds if ours else bare(trainer, device)
            seconds.append((timed[True], timed[False]))
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
