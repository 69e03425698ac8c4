"""Weights & Biases: an offline run, which `wandb sync` can upload later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import wandb

from llmperf_tracking.run_log import Scalar

PROJECT = "llmperf"


class WandbSink:
    """One offline run for each run, named by its id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, run_id: str, parameters: Mapping[str, Scalar]) -> None:
        """Create the run with its hyperparameters; it records nothing of the machine, the code or the terminal."""
        settings = wandb.Settings(
            console="off",
            silent=True,
            save_code=False,
            disable_git=True,
            x_disable_stats=True,
            x_disable_meta=True,
        )
        self._run = wandb.init(
            mode="offline",
            dir=str(self._folder),
            project=PROJECT,
            name=run_id,
            id=run_id,
            config=dict(parameters),
            settings=settings,
        )

    def steps(self, steps: Sequence[tuple[int, Mapping[str, float]]]) -> None:
        """A row of history for each step."""
        for step, figures in steps:
            self._run.log(dict(figures), step=step)

    def end(self, status: str, last_step: int, figures: Mapping[str, float]) -> None:
        """Figures `result/...` in the summary, and how the run ended."""
        self._run.summary.update({f"result/{name}": value for name, value in figures.items()} | {"status": status})
        self._run.finish(exit_code=0 if status == "complete" else 1)
