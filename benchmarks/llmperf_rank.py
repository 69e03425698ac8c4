"""One rank of llmperf's own loop: its measured steps or, given a number of pairs, stretches beside a bare loop."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from llmperf.measuring.loop import MeasuredLoop
from llmperf.types import Contract, Device, Trainer
from ranks import own_rank

STEPS = 5
"""In one stretch."""


def whole_run(contract: Contract, loop: MeasuredLoop) -> dict[str, Any]:
    """The wall and CPU time of the measured steps, as the ranks of other trainers print them."""
    loop.run(contract.warmup_steps, 0, lambda *_: None)
    used = time.process_time()
    seconds = loop.run(contract.steps - contract.warmup_steps, 0, lambda *_: None).seconds
    return {"seconds": seconds, "cpu_seconds": time.process_time() - used}


def bare(trainer: Trainer, device: Device) -> float:
    """Seconds of a stretch with nothing around it but two clock readings."""
    device.synchronize()
    start = time.perf_counter()
    for _ in range(STEPS):
        trainer.train_step()
    device.synchronize()
    return time.perf_counter() - start


def beside_bare(trainer: Trainer, device: Device, loop: MeasuredLoop, pairs: int) -> dict[str, Any]:
    """Seconds of each pair of stretches: llmperf's loop, then the bare one."""
    seconds: list[tuple[float, float]] = []
    bare(trainer, device)
    for pair in range(pairs):
        timed = {}
        for ours in (True, False) if pair % 2 == 0 else (False, True):
            timed[ours] = loop.run(STEPS, 0, lambda *_: None).seconds if ours else bare(trainer, device)
        seconds.append((timed[True], timed[False]))
    return {"seconds": seconds}


if __name__ == "__main__":
    with own_rank(Path(sys.argv[1])) as (plan, trainer, device, loop):
        pairs = [int(word) for word in sys.argv[2:]]
        figures = beside_bare(trainer, device, loop, *pairs) if pairs else whole_run(plan.spec.contract, loop)
    print(json.dumps(figures))
