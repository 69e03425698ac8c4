"""Time of one `meter.step` as a share of a step of 10 ms.

./dev python benchmarks/meter_cost.py
"""

from __future__ import annotations

import argparse
import tempfile
import time

from llmperf_watch import meter

STEP_SECONDS = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder, meter(out=folder, devices=1) as run:
        begin = time.perf_counter()
        for number in range(steps):
            run.step(tokens=2048, loss=1 / (number + 1))
        seconds = (time.perf_counter() - begin) / steps
    print(f"meter.step: {1e6 * seconds:.2f} us, {seconds / STEP_SECONDS:.4%} of a step of 10 ms")


if __name__ == "__main__":
    main()
