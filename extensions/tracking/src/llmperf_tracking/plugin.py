"""llmperf extension `tracking`: the loggers of `llmperf run --log NAME=VALUE`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Logger


@hookimpl
def llmperf_loggers() -> list[Logger]:
    """TensorBoard, MLflow, Weights & Biases and OpenMetrics; their libraries are imported when one is opened."""
    from llmperf.types import Logger

    from llmperf_tracking.opening import open_mlflow, open_openmetrics, open_tensorboard, open_wandb

    return [
        Logger(name="mlflow", value="DIR", open=open_mlflow),
        Logger(name="openmetrics", value="FILE", open=open_openmetrics),
        Logger(name="tensorboard", value="DIR", open=open_tensorboard),
        Logger(name="wandb", value="DIR", open=open_wandb),
    ]
