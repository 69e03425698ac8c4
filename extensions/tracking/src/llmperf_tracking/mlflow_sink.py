"""MLflow: a run in a local file store."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient

from llmperf_tracking.run_log import Scalar

EXPERIMENT = "llmperf"
MOST_METRICS = 1000
"""In one call of `log_batch`, by its documentation."""
MOST_PARAMS = 100
STATUS = {"complete": "FINISHED", "aborted": "KILLED"}


class MlflowSink:
    """One MLflow run for each run, named by its id."""

    def __init__(self, folder: Path) -> None:
        self._client = MlflowClient(tracking_uri=folder.as_uri())

    def begin(self, run_id: str, parameters: Mapping[str, Scalar]) -> None:
        """Create the run with its hyperparameters."""
        known = self._client.get_experiment_by_name(EXPERIMENT)
        experiment = self._client.create_experiment(EXPERIMENT) if known is None else known.experiment_id
        self._run = self._client.create_run(experiment, run_name=run_id).info.run_id
        params = [Param(name, str(value)) for name, value in parameters.items()]
        for first in range(0, len(params), MOST_PARAMS):
            self._client.log_batch(self._run, params=params[first : first + MOST_PARAMS])

    def steps(self, steps: Sequence[tuple[int, Mapping[str, float]]]) -> None:
        """Metrics by step."""
        now = int(1000 * time.time())
        self._log([Metric(name, value, now, step) for step, figures in steps for name, value in figures.items()])

    def end(self, status: str, last_step: int, figures: Mapping[str, float]) -> None:
        """Metrics `result/...` at the last step, and how the run ended."""
        now = int(1000 * time.time())
        self._log([Metric(f"result/{name}", value, now, last_step) for name, value in figures.items()])
        self._client.set_terminated(self._run, STATUS.get(status, "FAILED"))

    def _log(self, metrics: Sequence[Metric]) -> None:
        for first in range(0, len(metrics), MOST_METRICS):
            self._client.log_batch(self._run, metrics=metrics[first : first + MOST_METRICS])
