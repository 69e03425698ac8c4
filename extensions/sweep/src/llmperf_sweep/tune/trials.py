"""Trials: short runs of candidates, with what became of them, and the figures that a search optimises."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from llmperf_sweep.plugin import VARIABLE
from llmperf_sweep.tune.candidates import Ended, Search, llmperf
from llmperf_sweep.tune.early_stop import Limit
from llmperf_sweep.tune.space import Candidate

State = Literal["complete", "behind", "failed"]
"""`behind`: ended early, since it was clearly slower than the best trial before it."""
BEHIND = 0.7
"""Share of the best throughput below which a trial is ended early."""
STEPS_BEFORE_STOP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A figure of a result that is to be high or low."""

    name: str
    title: str
    """For people, with the unit."""
    highest: bool
    """More is better."""
    figure: Callable[[Mapping[str, Any]], float | None]
    """Takes `result.metrics`; None if the result does not have it."""

    def better(self, first: float, second: float) -> bool:
        """Check whether `first` is better than `second`."""
        return first > second if self.highest else first < second


def _memory(metrics: Mapping[str, Any]) -> float | None:
    peaks = [rank["peak_bytes"] for rank in metrics["rank_memory"]]
    return None if not peaks or None in peaks else float(max(peaks))


OBJECTIVES = {
    name: Objective(name=name, title=title, highest=highest, figure=figure)
    for name, title, highest, figure in (
        ("throughput", "token/p/s", True, lambda metrics: metrics["tokens_per_second_per_device"]),
        ("energy", "J/token", False, lambda metrics: metrics["joules_per_token"]),
        ("memory", "peak bytes of a rank", False, _memory),
    )
}
"""By name; the first is the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A candidate that was started."""

    values: Candidate
    """The searched settings."""
    state: State
    figures: Mapping[str, float | None] = field(default_factory=dict)
    """By the name of the objective; of a trial that was ended early, the throughput that it had reached."""
    folder: str | None = None
    """Name of the run folder."""
    reason: str = ""
    """Reason why it failed or was stopped early."""
    seconds: float
    """From start to end."""


class Trials:
    """Starts trials in one folder."""

    def __init__(self, search: Search, folder: Path, steps: int, warmup_steps: int) -> None:
        self._search = search
        self._folder = folder
        self._short = (f"contract.steps={steps}", f"contract.warmup_steps={warmup_steps}")

    def run(self, values: Candidate, objectives: Sequence[Objective], best: float | None) -> Trial:
        """Run one candidate for a few steps. `best` is the highest throughput so far, for ending it early."""
        limit_file, env = self._folder / "limit.json", {}
        if best is not None:
            Limit(steps=STEPS_BEFORE_STOP, tokens_per_second_per_device=BEHIND * best).save(limit_file)
            env = {VARIABLE: str(limit_file.absolute())}
        began = time.monotonic()
        ended = self._call(values, self._short, env)
        seconds = time.monotonic() - began
        reached = Limit.load(limit_file).reached if best is not None else None
        if reached is not None:
            reason = f"ended early: {reached:,.1f} token/p/s, the best has {best:,.1f}"
            figures = {"throughput": reached}
            return Trial(values=values, state="behind", figures=figures, reason=reason, seconds=seconds)
        return self._trial(values, ended, objectives, seconds)

    def whole(self, values: Candidate) -> tuple[float | None, str | None, str]:
        """Run one candidate as long as the case says: its throughput, the run folder, and why there is none."""
        trial = self._trial(values, self._call(values, (), {}), (), 0.0)
        return trial.figures.get("throughput"), trial.folder, trial.reason

    def _call(self, values: Candidate, settings: Sequence[str], env: Mapping[str, str]) -> Ended:
        words = ["run", *self._search.words(values, settings), "--json", "--out", str(self._folder / "runs")]
        return llmperf(words, self._folder / "trials.log", env)

    @staticmethod
    def _trial(values: Candidate, ended: Ended, objectives: Sequence[Objective], seconds: float) -> Trial:
        if not isinstance(ended.document, dict):
            reason = ended.error or f"llmperf run ended with {ended.code} and no result"
            return Trial(values=values, state="failed", reason=reason, seconds=seconds)
        result, folder = ended.document["result"], Path(ended.document["folder"]).name
        if result["status"] != "complete":
            failure = result["failure"] or {}
            rank = "" if failure.get("rank") is None else f"rank {failure['rank']}: "
            reason = f"{result['status']}: {rank}{failure.get('message') or failure.get('exception') or ended.error}"
            return Trial(values=values, state="failed", folder=folder, reason=reason, seconds=seconds)
        metrics = result["metrics"]
        figures = {objective.name: objective.figure(metrics) for objective in objectives}
        figures["throughput"] = metrics["tokens_per_second_per_device"]
        return Trial(values=values, state="complete", figures=figures, folder=folder, seconds=seconds)
