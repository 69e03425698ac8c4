"""Opens the loggers: checks the folder or file, and imports the library, before a run starts."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

from llmperf.errors import UserError
from llmperf.types import Observer

from llmperf_tracking.run_log import RunLog

LIBRARIES = {
    "tensorboard": ("TensorBoardSink", "tensorboard"),
    "mlflow": ("MlflowSink", "mlflow-skinny"),
    "wandb": ("WandbSink", "wandb"),
    "openmetrics": ("OpenMetricsSink", None),
}
"""The sink of each logger, in the module of its name, and the package whose library it imports."""
SETTINGS = {
    "MLFLOW_ALLOW_FILE_STORE": "true",  # without it the library refuses a file store
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "WANDB_ERROR_REPORTING": "false",
}
"""Variables that the libraries read when they are imported, unless the user has set them."""


def opened(name: str, value: str) -> Observer:
    """The observer of one logger; UserError if its folder or file cannot be written, or its library is missing."""
    path = Path(value).absolute()
    if name == "openmetrics" and path.is_dir():
        raise UserError(f"--log {name}={value}: expected a file, found a folder")
    folder = path.parent if name == "openmetrics" else path
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--log {name}={value}: expected a folder that can be written: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise UserError(f"--log {name}={value}: expected a folder that can be written, found one that cannot")
    for variable, setting in SETTINGS.items():
        if variable.startswith(name.upper()):
            os.environ.setdefault(variable, setting)
    sink, package = LIBRARIES[name]
    try:
        module = import_module(f"llmperf_tracking.{name}_sink")
    except ImportError as error:
        raise UserError(f"--log {name}: {error}; install the library with: pip install {package}") from None
    return RunLog(name, getattr(module, sink)(path))
