"""TensorBoard: event files, written without TensorFlow or torch."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from llmperf_tracking.run_log import Scalar


class TensorBoardSink:
    """One folder of event files for each run, so that TensorBoard shows the runs beside one another."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, run_id: str, parameters: Mapping[str, Scalar]) -> None:
        """Open the event file; hyperparameters for the HParams page."""
        self._writer = EventFileWriter(str(self._folder / run_id))
        summary = Summary.FromString(hparams_pb(dict(parameters), trial_id=run_id).SerializeToString())
        self._writer.add_event(Event(wall_time=time.time(), summary=summary))
        self._writer.flush()

    def steps(self, steps: Sequence[tuple[int, Mapping[str, float]]]) -> None:
        """Scalars `train/loss` and so on."""
        for step, figures in steps:
            self._add(step, {f"train/{name}": value for name, value in figures.items()})
        self._writer.flush()

    def end(self, status: str, last_step: int, figures: Mapping[str, float]) -> None:
        """Scalars `result/tokens_per_second_per_device` and so on, at the last step."""
        self._add(last_step, {f"result/{name}": value for name, value in figures.items()})
        self._writer.close()

    def _add(self, step: int, figures: Mapping[str, float]) -> None:
        values = [Summary.Value(tag=name, simple_value=value) for name, value in figures.items()]
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))
