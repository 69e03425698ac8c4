"""The table of NPUs, and what each can be asked for."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import cast

from llmperf import PeakEntry, PeakTable
from llmperf.types import Offers, Precision


@cache
def table() -> PeakTable:
    """Every NPU that is known."""
    return PeakTable.read(Path(__file__).parent / "data" / "peaks.toml", vendor="ascend")


def offers_of(entry: PeakEntry | None) -> Offers:
    """What an NPU can be asked for; one that is not in the table, fp32 alone."""
    precisions = "fp32" if entry is None else entry.details["precisions"]
    return Offers(
        precisions=cast("tuple[Precision, ...]", tuple(precisions.split(", "))),
        runtimes=("torch",),
        collective_backend="hccl",
    )
