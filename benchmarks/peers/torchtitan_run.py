"""Throughput and CPU time under llmperf and of torchtitan by hand: same model shape, batch, precision, steps.

`--framework torchtitan`: torchtitan under llmperf; `pytorch`: llmperf's own FSDP2. Two ratios: torchtitan by hand with
the variables that llmperf's vendor plugin sets for its ranks, and with its share of the cores alone.

    ./dev python benchmarks/peers/torchtitan_run.py --rounds 5
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rounds import compare, sides

sys.path.insert(0, str(Path(__file__).parents[1]))
from ranks import planned


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=["torchtitan", "pytorch"], default="torchtitan")
    parser.add_argument("--case", default="default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chunked", action="store_true", help="torchtitan's loss in chunks of the sequence")
    parser.add_argument("--compiled", action="store_true", help="torchtitan with torch.compile")
    parser.add_argument("--set", dest="settings", action="append", default=["sharding_stage=2", "steps=65"])
    options = parser.parse_args()
    words = ["chunked"] * options.chunked + ["compiled"] * options.compiled
    plan = planned(options.case, options.framework, options.settings).plan
    assert plan is not None
    ways = sides(plan, "peers/torchtitan_rank.py", ("OMP_NUM_THREADS",), *words)
    compare(f"{options.framework} against torchtitan by hand", plan, ways, options.rounds)


if __name__ == "__main__":
    main()
