"""The core's own models, cases and overlays."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from llmperf.hookspecs import hookimpl


@hookimpl
def llmperf_resources() -> Iterable[Path]:
    """The folder of the core's models and cases."""
    return [Path(__file__).parents[1] / "data"]
