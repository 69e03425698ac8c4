"""Rounds of llmperf and another trainer in turn: ratios of wall time and of CPU time over the measured steps.

Wall time counts on a machine without other work. CPU time is what remains to compare where other work runs.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from llmperf.types import Plan

sys.path.insert(0, str(Path(__file__).parents[1]))
from ranks import run_ranks, tokens_per_second_per_device

OURS = "llmperf"
SAME, BY_HAND = "same variables", "as started by hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """How one trainer is started."""

    script: str
    """In `benchmarks/`, started once a rank."""
    env: Mapping[str, str]
    """Variables of its ranks."""
    words: tuple[str, ...] = ()
    """Further arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One run."""

    tokens_per_second_per_device: float
    """By the slowest rank."""
    cpu_seconds: float
    """CPU seconds of all ranks over the measured steps, all threads."""


def sides(plan: Plan, script: str, by_hand: tuple[str, ...], *words: str) -> dict[str, Side]:
    """llmperf, the other trainer with the same variables, and the same with those `by_hand` only."""
    few = {name: plan.env[name] for name in by_hand if name in plan.env}
    return {
        OURS: Side(script="peers/llmperf_rank.py", env=plan.env),
        SAME: Side(script=script, env=plan.env, words=words),
        BY_HAND: Side(script=script, env=few, words=words),
    }


def measured(plan: Plan, side: Side, folder: Path) -> Figures:
    """One run of one side."""
    ranks = run_ranks(side.script, replace(plan, env=side.env), folder, *side.words)
    return Figures(
        tokens_per_second_per_device=tokens_per_second_per_device(plan, max(rank["seconds"] for rank in ranks)),
        cpu_seconds=sum(rank["cpu_seconds"] for rank in ranks),
    )


def compare(name: str, plan: Plan, ways: Mapping[str, Side], rounds: int) -> None:
    """Print all runs and, for each of the other ways, the medians of the paired ratios; the order turns each round."""
    names = list(ways)
    runs: list[dict[str, Figures]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(rounds):
            start = turn % len(names)
            figures = {
                way: measured(plan, ways[way], Path(scratch) / f"{turn}-{way.replace(' ', '-')}")
                for way in names[start:] + names[:start]
            }
            runs.append(figures)
            printed = (
                f"{way} {figures[way].tokens_per_second_per_device:.1f} token/p/s, {figures[way].cpu_seconds:.2f} CPU s"
                for way in names
            )
            print("; ".join(printed), flush=True)
    for way in names[1:]:
        _print_ratios(
            f"{name}, {way}: token/p/s of llmperf / of the other",
            [
                figures[OURS].tokens_per_second_per_device / figures[way].tokens_per_second_per_device
                for figures in runs
            ],
        )
        _print_ratios(
            f"{name}, {way}: CPU time of the other / of llmperf",
            [figures[way].cpu_seconds / figures[OURS].cpu_seconds for figures in runs],
        )


def _print_ratios(name: str, ratios: list[float]) -> None:
    low, high = min(ratios), max(ratios)
    middle = statistics.median(ratios)
    print(f"{name}: median ratio {middle:.4f} of {len(ratios)} pairs, {low:.4f} to {high:.4f}; wanted >= 0.98")
