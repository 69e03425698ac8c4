"""The table of GPUs, and what each kind of GPU can be asked for."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from llmperf import PeakEntry, PeakTable
from llmperf.types import Offers, Precision

TABLE = Path(__file__).parent / "data" / "peaks.toml"
TENSOR_CORES: tuple[Precision, ...] = ("fp32", "tf32", "bf16", "fp16")
"""Precisions from compute capability 8.0 on."""
BEFORE_AMPERE: tuple[Precision, ...] = ("fp32", "fp16")


@cache
def table() -> PeakTable:
    """Every GPU whose figures are known."""
    return PeakTable.read(TABLE, vendor="nvidia")


def offers_of(entry: PeakEntry) -> Offers:
    """What a GPU of the table can be asked for."""
    return offers(entry.details["compute_capability"])


def offers(compute_capability: str | None) -> Offers:
    """What a GPU can be asked for: by its compute capability, fp32 alone where that is unknown."""
    version = tuple(map(int, compute_capability.split("."))) if compute_capability else (0, 0)
    precisions = TENSOR_CORES if version >= (8, 0) else BEFORE_AMPERE if version >= (7, 0) else ("fp32",)
    return Offers(
        precisions=precisions,
        runtimes=("torch", "paddle"),
        collective_backend="nccl",
        features=("flash_attention",) if version >= (8, 0) else (),
    )
