"""token/p/s of a ZeRO run under llmperf / under Hugging Face Trainer + DeepSpeed: same model, data, batch; in pairs.

uv run python benchmarks/hf_trainer.py --pairs 3
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from overhead import under_llmperf
from ranks import planned, report, run_ranks, tokens_per_second_per_device


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="default")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--set", dest="settings", action="append", default=["steps=44"])
    options = parser.parse_args()
    sketch = planned(options.case, "zero", options.settings)
    assert sketch.plan is not None
    ratios = []
    with tempfile.TemporaryDirectory() as scratch:
        for pair in range(options.pairs):
            figures = {}
            for ours in (True, False) if pair % 2 == 0 else (False, True):
                folder = Path(scratch) / f"{pair}-{ours}"
                if ours:
                    figures[ours] = under_llmperf(sketch, folder)
                else:
                    ranks = run_ranks("hf_trainer_rank.py", sketch.plan, folder)
                    slowest = max(rank["seconds"] for rank in ranks)
                    figures[ours] = tokens_per_second_per_device(sketch.plan, slowest)
            ratios.append(figures[True] / figures[False])
            print(f"pair {pair}: llmperf {figures[True]:.1f}, Trainer {figures[False]:.1f} token/p/s", flush=True)
    report("ZeRO: llmperf / Hugging Face Trainer + DeepSpeed", ratios, ">= 1")


if __name__ == "__main__":
    main()
