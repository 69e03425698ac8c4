"""The table of devices, and what each can be asked for."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import cast

from llmperf import PeakEntry, PeakTable
from llmperf.types import Offers, Precision

COLLECTIVES = "acme"
"""The torch.distributed backend that your runtime registers. Edit it to be yours."""


@cache
def table() -> PeakTable:
    """Every device whose figures are known."""
    return PeakTable.read(Path(__file__).parent / "data" / "peaks.toml", vendor="acme")


def offers_of(entry: PeakEntry | None) -> Offers:
    """What a device can be asked for: `details.precisions` of its entry; one that is not in the table, fp32 alone."""
    precisions = "fp32" if entry is None else entry.details.get("precisions", "fp32")
    return Offers(
        precisions=cast("tuple[Precision, ...]", tuple(one.strip() for one in precisions.split(","))),
        runtimes=("torch",),
        collective_backend=COLLECTIVES,
    )
