"""Opens the loggers: checks the folder or file, and imports the library, before a run starts."""

from __future__ import annotations

import os
from pathlib import Path

from llmperf.errors import UserError
from llmperf.types import Observer

from llmperf_tracking.run_log import RunLog


def open_tensorboard(value: str) -> Observer:
    """Event files in `DIR/<run id>/`."""
    folder = _folder("tensorboard", value)
    try:
        from llmperf_tracking.tensorboard_sink import TensorBoardSink
    except ImportError as error:
        raise _missing("tensorboard", "tensorboard", error) from None
    return RunLog("tensorboard", TensorBoardSink(folder))


def open_mlflow(value: str) -> Observer:
    """A run of the experiment `llmperf` in the file store `DIR`."""
    folder = _folder("mlflow", value)
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # read by the library; without it a file store is refused
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    try:
        from llmperf_tracking.mlflow_sink import MlflowSink
    except ImportError as error:
        raise _missing("mlflow", "mlflow-skinny", error) from None
    return RunLog("mlflow", MlflowSink(folder))


def open_wandb(value: str) -> Observer:
    """An offline run of the project `llmperf` in `DIR/wandb/`; nothing is sent anywhere."""
    folder = _folder("wandb", value)
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    try:
        from llmperf_tracking.wandb_sink import WandbSink
    except ImportError as error:
        raise _missing("wandb", "wandb", error) from None
    return RunLog("wandb", WandbSink(folder))


def open_openmetrics(value: str) -> Observer:
    """The present figures in one text file, replaced as a whole."""
    from llmperf_tracking.openmetrics_sink import OpenMetricsSink

    path = Path(value).absolute()
    if path.is_dir():
        raise UserError(f"--log openmetrics={value}: expected a file, found a folder")
    _folder("openmetrics", value, path.parent)
    return RunLog("openmetrics", OpenMetricsSink(path))


def _folder(name: str, value: str, path: Path | None = None) -> Path:
    """The folder with this value or path, which is made."""
    path = Path(value).absolute() if path is None else path
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--log {name}={value}: expected a folder that can be written: {error.strerror}") from None
    if not os.access(path, os.W_OK):
        raise UserError(f"--log {name}={value}: expected a folder that can be written, found one that cannot")
    return path


def _missing(name: str, package: str, error: ImportError) -> UserError:
    return UserError(f"--log {name}: {error}; install the library with: pip install {package}")
