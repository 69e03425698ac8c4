"""token/p/s of a run under llmperf / under Hugging Face Trainer: same model, weights, data, batch, optimiser.

`--framework zero`: Trainer with DeepSpeed; `pytorch`: Trainer with DistributedDataParallel; `lora`: Trainer with a
model of peft. Two ratios: Trainer with the variables that llmperf's vendor plugin sets for its ranks, and Trainer as a
user starts it, with its share of the cores alone.

    uv run python benchmarks/peers/hf_trainer.py --framework zero --rounds 5
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from llmperf.planning.states import Planned
from llmperf.types import Plan

sys.path.insert(0, str(Path(__file__).parents[1]))
from overhead import under_llmperf
from ranks import planned, report, run_ranks, tokens_per_second_per_device

WAYS = ("llmperf", "same variables", "as started by hand")
BY_HAND = ("OMP_NUM_THREADS", "DS_ACCELERATOR", "TORCH_EXTENSIONS_DIR")


def under_trainer(plan: Plan, folder: Path) -> float:
    """token/p/s of one run of Trainer, by the slowest rank."""
    ranks = run_ranks("peers/hf_trainer_rank.py", plan, folder)
    return tokens_per_second_per_device(plan, max(rank["seconds"] for rank in ranks))


def measure(way: str, run: Planned, folder: Path) -> float:
    """token/p/s of one run in one of the `WAYS`."""
    plan = run.plan
    assert plan is not None
    if way == "llmperf":
        return under_llmperf(run, folder)
    if way == "same variables":
        return under_trainer(plan, folder)
    return under_trainer(replace(plan, env={name: plan.env[name] for name in BY_HAND if name in plan.env}), folder)


def main() -> None:
    """Rounds of all three, their order turned each time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=["zero", "pytorch", "lora"], default="zero")
    parser.add_argument("--case", help="by default default, for lora llama2_7b_lora on llama_mini")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--set", dest="settings", action="append", default=["steps=65"])
    options = parser.parse_args()
    lora = options.framework == "lora"
    small = (
        ["model=llama_mini", "sharding_stage=0"] if lora else ["sharding_stage=0"] * (options.framework == "pytorch")
    )
    case = options.case or ("llama2_7b_lora" if lora else "default")
    run = planned(case, options.framework, [*small, *options.settings])
    rounds = []
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(options.rounds):
            order = WAYS[turn % 3 :] + WAYS[: turn % 3]
            figures = {way: measure(way, run, Path(scratch) / f"{turn}-{way.replace(' ', '-')}") for way in order}
            rounds.append(figures)
            print(", ".join(f"{way} {figures[way]:.1f}" for way in WAYS), "token/p/s", flush=True)
    for way in WAYS[1:]:
        ratios = [figures["llmperf"] / figures[way] for figures in rounds]
        report(f"{options.framework}: llmperf / Hugging Face Trainer, {way}", ratios, ">= 1.1")


if __name__ == "__main__":
    main()
