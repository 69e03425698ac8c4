"""What the core answers itself: its models and cases, FLOP accounting, the local launcher, its reporters."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.hookspecs import hookimpl

if TYPE_CHECKING:
    from llmperf.types import FlopCount, Launcher, Model, Reporter, Workload


@hookimpl
def llmperf_resources() -> Iterable[Path]:
    """The core's own models and cases."""
    return [Path(__file__).parents[1] / "data"]


@hookimpl(trylast=True)
def llmperf_count_flops(model: Model, workload: Workload) -> FlopCount | None:
    """The five conventions, after any extension has been asked."""
    from llmperf.accounting.flops import count_flops

    return count_flops(model, workload)


@hookimpl
def llmperf_launchers() -> Iterable[Launcher]:
    """This machine."""
    from llmperf.launching.local import LocalLauncher

    return [LocalLauncher()]


@hookimpl
def llmperf_reporters() -> Iterable[Reporter]:
    """Terminal, Markdown, JSON, CSV and HTML."""
    from llmperf.reporting.formats import core_reporters

    return core_reporters()
