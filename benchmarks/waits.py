"""CPU time of measuring the waits of one step of plain PyTorch, in microseconds: a backward pass with and without.

./dev python benchmarks/waits.py --pairs 200
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from llmperf_cpu.device import CpuDevice
from llmperf_torchkit.trainer import Waits

PASSES = 200
"""Backward passes in one stretch."""


def stretch(weight: torch.Tensor, waits: Waits | None) -> float:
    """Seconds of CPU time of one backward pass."""
    began = time.process_time()
    for _ in range(PASSES):
        loss = (weight * 2).sum()
        if waits is not None:
            waits.after_gradients(loss)
        loss.backward()  # type: ignore[no-untyped-call]
        if waits is not None:
            waits.end()
    return (time.process_time() - began) / PASSES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    options = parser.parse_args()
    torch.set_num_threads(1)
    weight, waits = torch.ones(4, requires_grad=True), Waits(CpuDevice())
    stretch(weight, waits)
    costs = []
    for pair in range(options.pairs):
        timed = {measured: stretch(weight, waits if measured else None)
                 for measured in ((True, False) if pair % 2 == 0 else (False, True))}  # fmt: skip
        costs.append(1e6 * (timed[True] - timed[False]))
    low, middle, high = statistics.quantiles(costs, n=4)
    print(f"cost of one measured step: median {middle:.1f} us of {len(costs)} pairs, quartiles {low:.1f} to"
          f" {high:.1f} us")  # fmt: skip


if __name__ == "__main__":
    main()
