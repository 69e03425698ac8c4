"""The table of GPUs: what each can do at best, by its exact name."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from llmperf.types import DeviceInfo, Offers, PeakFlops, Precision, Probe

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).parent / "data" / "peaks.toml"
TENSOR_CORES: tuple[Precision, ...] = ("fp32", "tf32", "bf16", "fp16")
"""Precisions from compute capability 8.0 on."""
BEFORE_AMPERE: tuple[Precision, ...] = ("fp32", "fp16")


def peak_flops(device_model: str, dtype: Precision) -> PeakFlops | None:
    """The dense peak of exactly this GPU, FLOP/s; None if it, or its figure for `dtype`, is not in the table."""
    entry = find(device_model)
    if entry is None or dtype not in entry:
        return None
    return PeakFlops(
        device_model=device_model,
        dtype=dtype,
        flops_per_second=float(round(entry[dtype] * 1e12)),
        source=entry["source"],
        date=entry["date"],
        confidence=entry.get("confidence", "datasheet"),
    )


def catalogue() -> list[Probe]:
    """One probe with one device for each GPU of the table."""
    return [_simulated(entry) for entry in table()]


def find(device_model: str) -> dict[str, Any] | None:
    """The table's entry whose model or alias is this name."""
    return _by_name().get(normalised(device_model))


def normalised(name: str) -> str:
    """A name without case, spaces, dashes, underscores and a leading NVIDIA: compared whole."""
    return re.sub(r"[\s_-]+", "", name).lower().removeprefix("nvidia")


@cache
def table() -> tuple[dict[str, Any], ...]:
    """Every entry of the table."""
    return tuple(tomllib.loads(TABLE.read_text(encoding="utf-8"))["gpu"])


@cache
def _by_name() -> dict[str, dict[str, Any]]:
    return {normalised(name): entry for entry in table() for name in (entry["model"], *entry["aliases"])}


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


def _simulated(entry: dict[str, Any]) -> Probe:
    details = {"aliases": ", ".join(entry["aliases"]), "compute_capability": entry["compute_capability"]}
    device = DeviceInfo(index=0, model=entry["model"], memory_bytes=entry["memory_gib"] * 2**30, details=details)
    return Probe(vendor="nvidia", devices=(device,), offers=offers(entry["compute_capability"]), simulated=True)
