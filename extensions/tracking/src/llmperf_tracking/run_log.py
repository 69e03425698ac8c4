"""The observer that all loggers share: hyperparameters at the start, figures of each step, the result at the end."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from llmperf.errors import UserError
from llmperf.reporting import result_sheet, sheet_values
from llmperf.types import Observer, Plan, Progress, Result, StepProgress

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


Scalar = str | int | float | bool


class Sink(Protocol):
    """Where the figures of one run at a time go."""

    def begin(self, run_id: str, parameters: Mapping[str, Scalar]) -> None:
        """A run starts, with its hyperparameters."""

    def steps(self, steps: Sequence[tuple[int, Mapping[str, float]]]) -> None:
        """Steps that have finished, each with its figures by name."""

    def end(self, status: str, last_step: int, figures: Mapping[str, float]) -> None:
        """The run has ended, with the figures of its result."""


class RunLog:
    """Follows one run."""

    def __init__(self, name: str, sink: Sink) -> None:
        self.name = name
        self._sink = sink
        self._latest: Progress | None = None
        self._last_step = 0

    def started(self, plan: Plan, folder: Path) -> None:
        """Log the hyperparameters."""
        self._sink.begin(plan.run_id, hyperparameters(plan))

    def progress(self, progress: Progress) -> None:
        """Keep the present state: its memory and MFU are logged with the next steps."""
        self._latest = progress

    def steps(self, steps: Sequence[StepProgress]) -> None:
        """Log each step; the memory in use and MFU with the last of them."""
        figures = [(step.step, _known(loss=step.loss, step_seconds=step.step_seconds,
                                      tokens_per_second_per_device=step.tokens_per_second_per_device))
                   for step in steps]  # fmt: skip
        if self._latest is not None:
            figures[-1][1].update(
                _known(device_memory_used_bytes=self._latest.memory_used_bytes, mfu_nominal=self._latest.mfu)
            )
        self._last_step = steps[-1].step
        self._sink.steps(figures)

    def ended(self, result: Result | None, folder: Path) -> None:
        """Log the figures of the result."""
        status = "failed" if result is None else result.status
        # by the column names of `llmperf report --format csv`; unknown figures are left out
        values = {} if result is None else sheet_values(result_sheet(result))
        numbers = {name: value for name, value in values.items() if isinstance(value, (int, float))}
        figures = {name: float(value) for name, value in numbers.items() if not isinstance(value, bool)}
        self._sink.end(status, self._last_step, figures)


def _known(**figures: float | None) -> dict[str, float]:
    return {name: value for name, value in figures.items() if value is not None}


def hyperparameters(plan: Plan) -> dict[str, Scalar]:
    """The contract, the tuning, and what it runs on; unknown values are left out."""
    spec = plan.spec
    devices = {"vendor": plan.vendor, "device": plan.probe.devices[0].model if plan.probe.devices else None}
    named = {"case": spec.case, **devices, "world_size": plan.layout.world_size, "parameters": plan.flops.parameters}
    flat = {**named, **_flat(spec.contract, ""), **_flat(spec.tuning, "")}
    return {name: value for name, value in flat.items() if isinstance(value, (str, int, float, bool))}


def _flat(value: Any, prefix: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for field in fields(value):
        inner = getattr(value, field.name)
        if is_dataclass(inner):
            flat |= _flat(inner, f"{prefix}{field.name}.")
        else:
            flat[f"{prefix}{field.name}"] = " ".join(map(str, inner)) if isinstance(inner, tuple) else inner
    return flat
