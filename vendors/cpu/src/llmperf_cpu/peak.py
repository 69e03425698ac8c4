"""This host's peak, measured once in a separate process and kept in a small file."""

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
from llmperf.types import Dtype, PeakFlops

from llmperf_cpu import host

TIMEOUT_SECONDS = 120
LARGEST_BYTES = 4096
"""Limit on a cache file, which is far smaller."""
PLAUSIBLE = (1e8, 1e16)
"""FLOP/s of any CPU; other values come from a broken file or clock."""
CHOOSE_KERNELS = ("ATEN_", "DNNL_", "GOMP_", "KMP_", "MKL_", "OMP_", "ONEDNN_", "OPENBLAS_")
"""Beginnings of variables that choose kernels and threads of one run, and must not lower the peak of the host."""
QUIET = 0.9
"""Smallest share of the cores' time that other processes must leave to a measurement, as in LP409."""
AGAIN_SECONDS = 0.2
"""For each size, after a run."""
TRIES = 3
"""Measurements to try until one is undisturbed."""


def measured_peak(device_model: str, dtype: Dtype) -> PeakFlops | str | None:
    """The fastest matrix product of this host in `dtype`, kept; None, or why not, where it cannot be measured."""
    key = _key(device_model, dtype)
    if key is None:
        return None
    path = _path(key)
    if (kept := _kept(path, key)) is not None:
        return _peak(kept, "earlier, when it was idle")
    timed = _quietest_of_tries(key)
    if timed is None:
        return None
    if timed["core_share"] < QUIET:
        others = f"other processes used {100 * (1 - timed['core_share']):.0f} % of the cores"
        return f"{others} while the peak was timed; run again when the machine is idle"
    _keep(path, timed)
    return _peak(timed, "before the run")


def peak_now(device_model: str, dtype: Dtype) -> PeakFlops | None:
    """The same, measured quickly, however busy the host is; a figure above the kept one takes its place."""
    key = _key(device_model, dtype)
    measured = None if key is None else _measure(key, AGAIN_SECONDS)
    if key is None or measured is None:
        return None
    kept = _kept(_path(key), key)
    if kept is not None and measured["flops_per_second"] > kept["flops_per_second"]:
        _keep(_path(key), {**measured, "core_share": max(measured["core_share"], kept["core_share"])})
    return _peak(measured, "after the run")


def _key(device_model: str, dtype: Dtype) -> dict[str, Any] | None:
    """Key of a kept peak; None if this host does not measure one for that device and dtype."""
    library = _library(dtype)
    if library is None or device_model != host.cpu_model():
        return None
    return {"cpu": device_model, "cores": host.usable_cores(), "dtype": dtype, "library": library}


def _path(key: dict[str, Any]) -> Path:
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return cache_dir("cpu-peak") / f"{digest}.json"


def _peak(measured: dict[str, Any], when: str) -> PeakFlops:
    key = measured["key"]
    size, dtype = measured["size"], key["dtype"]
    return PeakFlops(
        device_model=key["cpu"],
        dtype=dtype,
        flops_per_second=measured["flops_per_second"],
        source=f"measured on this host {when}: fastest {size} x {size} {dtype} matrix product"
        f" with {key['library']} on {key['cores']} cores",
        date=measured["date"],
        confidence="measured",
    )


def _library(dtype: str) -> str | None:
    """`torch 2.x` or, for fp32, `numpy 2.x`, from metadata without importing it."""
    for name in {"fp32": ("torch", "numpy"), "bf16": ("torch",)}.get(dtype, ()):
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return None


def _kept(path: Path, key: dict[str, Any]) -> dict[str, Any] | None:
    """An earlier measurement; None if there is no such file or this module did not write it."""
    try:
        with path.open("rb") as file:
            measurement = json.loads(file.read(LARGEST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    valid = _is_valid(measurement) and measurement.get("key") == key and measurement["core_share"] >= QUIET
    return measurement if valid else None


def _is_valid(measurement: Any) -> bool:
    if not isinstance(measurement, dict):
        return False
    flops, share = measurement.get("flops_per_second"), measurement.get("core_share")
    within = isinstance(flops, float) and PLAUSIBLE[0] < flops < PLAUSIBLE[1]
    within = within and isinstance(share, float) and 0 < share <= 1
    return within and isinstance(measurement.get("size"), int) and isinstance(measurement.get("date"), str)


def _quietest_of_tries(key: dict[str, Any]) -> dict[str, Any] | None:
    """The first undisturbed measurement, else the least disturbed of a few."""
    tries: list[dict[str, Any]] = []
    while len(tries) < TRIES and (measurement := _measure(key)) is not None:
        if measurement["core_share"] >= QUIET:
            return measurement
        tries.append(measurement)
    return max(tries, key=lambda measurement: float(measurement["core_share"]), default=None)


def _measure(key: dict[str, Any], seconds: float | None = None) -> dict[str, Any] | None:
    command = [sys.executable, "-m", "llmperf_cpu.gemm_peak", "--dtype", key["dtype"]]
    command += ["--library", key["library"].split()[0]]
    command += [] if seconds is None else ["--seconds", str(seconds)]
    env = {name: value for name, value in os.environ.items() if not name.startswith(CHOOSE_KERNELS)}
    env["OMP_NUM_THREADS"] = str(key["cores"])
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        measured = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    today = datetime.now(timezone.utc).date().isoformat()
    kept = {**measured, "date": today, "key": key} if isinstance(measured, dict) else None
    return kept if _is_valid(kept) else None


def _keep(path: Path, kept: dict[str, Any]) -> None:
    """Writes the whole file or none; if it cannot be written, the next run measures again."""
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
