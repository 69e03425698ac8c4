"""Throughput and CPU time under llmperf and under Hugging Face Trainer: same model, weights, data, batch, optimiser.

`--framework zero`: Trainer with DeepSpeed; `pytorch`, `transformers`: Trainer with DistributedDataParallel; `lora`:
Trainer with a model of peft. Two ratios: Trainer with the variables that the vendor plugin sets for its ranks, and
Trainer as a user starts it, with its share of the cores alone.

    ./dev python benchmarks/peers/hf_trainer.py --framework zero --rounds 5
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rounds import compare, sides

sys.path.insert(0, str(Path(__file__).parents[1]))
from ranks import planned

BY_HAND = ("OMP_NUM_THREADS", "DS_ACCELERATOR", "TORCH_EXTENSIONS_DIR")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=["zero", "pytorch", "transformers", "lora"], default="zero")
    parser.add_argument("--case", help="by default default, for lora llama2_7b_lora on llama_mini")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--set", dest="settings", action="append", default=["steps=65"])
    options = parser.parse_args()
    lora = options.framework == "lora"
    small = ["model=llama_mini", "sharding_stage=0"] if lora else ["sharding_stage=0"] * (options.framework != "zero")
    case = options.case or ("llama2_7b_lora" if lora else "default")
    plan = planned(case, options.framework, [*small, *options.settings]).plan
    assert plan is not None
    ways = sides(plan, "peers/hf_trainer_rank.py", BY_HAND)
    compare(f"{options.framework} against Hugging Face Trainer", plan, ways, options.rounds)


if __name__ == "__main__":
    main()
