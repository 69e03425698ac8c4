"""llmperf extension `tracking`: `llmperf run --log NAME=VALUE`, and its loggers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import CommandOptions, Logger


@hookimpl
def llmperf_command_options(command: str) -> list[CommandOptions]:
    """`--log` of `llmperf run`."""
    if command != "run":
        return []
    from llmperf_tracking.logs import options

    return [options()]


@hookimpl
def llmperf_loggers() -> list[Logger]:
    """TensorBoard, MLflow, Weights & Biases and OpenMetrics; their libraries are imported when one is opened."""
    from llmperf.types import Logger

    from llmperf_tracking.run_log import LIBRARIES, opened

    return [
        Logger(name=name, value="FILE" if name == "openmetrics" else "DIR", open=partial(opened, name))
        for name in sorted(LIBRARIES)
    ]
