"""This host's measured peak: taken once in a process of its own, then kept in a small file."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from llmperf import cache_dir
from llmperf.types import PeakFlops, Precision

from llmperf_cpu import host

TIMEOUT_SECONDS = 120
LARGEST_BYTES = 4096
"""A cache file is far smaller."""
PLAUSIBLE = (1e8, 1e16)
"""FLOP/s of any CPU; anything else is a broken file or a broken clock."""
QUIET = 0.9
"""Share of the cores' time that others must leave to a measurement: with less, as in LP409, it is no peak."""
TRIES = 3
"""For a quiet moment."""


def measured_peak(device_model: str, dtype: Precision) -> PeakFlops | str | None:
    """The best matrix product of this host in `dtype`.

    None for another CPU than this host's, for a dtype CPUs do not have, and where nothing here can multiply
    matrices. Kept per CPU, cores, dtype and library. Where other work was running all the time there is a reason
    in place of a peak, and the next call measures again.
    """
    library = _library(dtype)
    if library is None or device_model != host.cpu_model():
        return None
    key = {"cpu": device_model, "cores": host.usable_cores(), "dtype": dtype, "library": library}
    path = cache_dir("cpu-peak") / f"{_digest(key)}.json"
    kept = _kept(path, key) or _quietest_of_tries(key)
    if kept is None:
        return None
    if kept["core_share"] < QUIET:
        others = f"other processes used {100 * (1 - kept['core_share']):.0f} % of the cores"
        return f"{others} while the peak was timed; run again when the machine is idle"
    _keep(path, kept)
    return PeakFlops(
        device_model=device_model,
        dtype=dtype,
        flops_per_second=kept["flops_per_second"],
        source=f"measured on this host: fastest {kept['size']} x {kept['size']} {dtype} matrix product"
        f" with {library} on {key['cores']} cores",
        date=kept["date"],
        confidence="measured",
    )


def _library(dtype: str) -> str | None:
    """`torch 2.x` or, for fp32, `numpy 2.x`; from metadata, nothing is imported."""
    for name in {"fp32": ("torch", "numpy"), "bf16": ("torch",)}.get(dtype, ()):
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return None


def _digest(key: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]


def _kept(path: Path, key: dict[str, Any]) -> dict[str, Any] | None:
    """What an earlier run measured; None if there is no such file or it is not what this module writes."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(LARGEST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return found if _sound(found) and found.get("key") == key and found["core_share"] >= QUIET else None


def _sound(found: Any) -> bool:
    if not isinstance(found, dict):
        return False
    flops, share = found.get("flops_per_second"), found.get("core_share")
    within = isinstance(flops, float) and PLAUSIBLE[0] < flops < PLAUSIBLE[1]
    within = within and isinstance(share, float) and 0 < share <= 1
    return within and isinstance(found.get("size"), int) and isinstance(found.get("date"), str)


def _quietest_of_tries(key: dict[str, Any]) -> dict[str, Any] | None:
    """The first measurement that the host was quiet for, else that of a few which others disturbed least."""
    tries: list[dict[str, Any]] = []
    while len(tries) < TRIES and (found := _measure(key)) is not None:
        if found["core_share"] >= QUIET:
            return found
        tries.append(found)
    return max(tries, key=lambda one: float(one["core_share"]), default=None)


def _measure(key: dict[str, Any]) -> dict[str, Any] | None:
    command = [sys.executable, "-m", "llmperf_cpu.gemm_peak", "--dtype", key["dtype"]]
    command += ["--library", key["library"].split()[0]]
    env = {**os.environ, "OMP_NUM_THREADS": str(key["cores"])}
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        measured = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    today = datetime.now(timezone.utc).date().isoformat()
    kept = {**measured, "date": today, "key": key} if isinstance(measured, dict) else None
    return kept if _sound(kept) else None


def _keep(path: Path, kept: dict[str, Any]) -> None:
    """Write the file whole or not at all; a cache that cannot be written costs a measurement, no more."""
    if path.exists() and _kept(path, kept["key"]) == kept:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".cpu-peak.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(kept, file)
        os.replace(name, path)
    except OSError:
        return
