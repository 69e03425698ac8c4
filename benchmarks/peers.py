"""Throughput and CPU time under llmperf and under another trainer, in turn: ratios over the measured steps.

`trainer`: Hugging Face Trainer on the same model, weights, data, batch and optimiser: with DeepSpeed against `zero`,
with DistributedDataParallel against `pytorch` and `transformers`, with a model of peft against `lora`. `torchtitan`:
torchtitan by hand on the same model shape, batch, precision and steps, against `torchtitan` and the FSDP2 of `pytorch`.

Two ratios: the other trainer with the variables that llmperf's vendor plugin sets for its ranks, and as a user starts
it, with its share of the cores alone. Wall time counts on a machine without other work, CPU time on any.

    ./dev python benchmarks/peers.py trainer --framework zero --rounds 5
    ./dev python benchmarks/peers.py torchtitan --rounds 5
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from llmperf.types import Plan
from ranks import planned, run_ranks, tokens_per_second_per_device

OURS, SAME, AS_STARTED = "llmperf", "same variables", "as started by hand"
BY_HAND = ("OMP_NUM_THREADS", "DS_ACCELERATOR", "TORCH_EXTENSIONS_DIR")
"""Variables of a trainer that a user starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """How one trainer is started."""

    script: str
    env: Mapping[str, str]
    words: tuple[str, ...] = ()


def measured(plan: Plan, side: Side, folder: Path) -> tuple[float, float]:
    """token/p/s by the slowest rank of one run, and CPU seconds of all its ranks over the measured steps."""
    ranks = run_ranks(side.script, replace(plan, env=side.env), folder, *side.words)
    slowest = max(rank["seconds"] for rank in ranks)
    return tokens_per_second_per_device(plan, slowest), sum(rank["cpu_seconds"] for rank in ranks)


def compare(name: str, plan: Plan, sides: Mapping[str, Side], rounds: int) -> None:
    """Print all runs and, for each of the other sides, the medians of the paired ratios; the order turns each round."""
    names, runs = list(sides), list[dict[str, tuple[float, float]]]()
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(rounds):
            start = turn % len(names)
            runs.append(
                {
                    side: measured(plan, sides[side], Path(scratch) / f"{turn}-{side.replace(' ', '-')}")
                    for side in names[start:] + names[:start]
                }
            )
            figures = ((side, *runs[-1][side]) for side in names)
            print("; ".join(f"{side} {rate:.1f} token/p/s, {cpu:.2f} CPU s" for side, rate, cpu in figures), flush=True)
    for side in names[1:]:
        rates = [run[OURS][0] / run[side][0] for run in runs]
        cpu = [run[side][1] / run[OURS][1] for run in runs]
        for what, ratios in (
            ("token/p/s of llmperf / of the other", rates),
            ("CPU time of the other / of llmperf", cpu),
        ):
            middle, low, high = statistics.median(ratios), min(ratios), max(ratios)
            of = f"median ratio {middle:.4f} of {len(ratios)} pairs, {low:.4f} to {high:.4f}; wanted >= 0.98"
            print(f"{name}, {side}: {what}: {of}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=["trainer", "torchtitan"])
    parser.add_argument("--framework", help="by default zero, beside torchtitan torchtitan")
    parser.add_argument("--case", help="by default default, for lora llama2_7b_lora on llama_mini")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chunked", action="store_true", help="torchtitan's loss in chunks of the sequence")
    parser.add_argument("--compiled", action="store_true", help="torchtitan with torch.compile")
    parser.add_argument("--set", dest="settings", action="append", default=["steps=65"])
    options = parser.parse_args()
    titan = options.peer == "torchtitan"
    framework = options.framework or ("torchtitan" if titan else "zero")
    lora = framework == "lora"
    small = [f"sharding_stage={2 if titan else 0}"] * (framework != "zero") + ["model=llama_mini"] * lora
    case = options.case or ("llama2_7b_lora" if lora else "default")
    plan = planned(case, framework, [*small, *options.settings]).plan
    assert plan is not None
    script = "torchtitan_rank.py" if titan else "hf_trainer_rank.py"
    words = ("chunked",) * options.chunked + ("compiled",) * options.compiled
    few = {name: plan.env[name] for name in (BY_HAND[:1] if titan else BY_HAND) if name in plan.env}
    sides = {
        OURS: Side(script="llmperf_rank.py", env=plan.env),
        SAME: Side(script=script, env=plan.env, words=words),
        AS_STARTED: Side(script=script, env=few, words=words),
    }
    compare(
        f"{framework} against {'torchtitan by hand' if titan else 'Hugging Face Trainer'}", plan, sides, options.rounds
    )


if __name__ == "__main__":
    main()
