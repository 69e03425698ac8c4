"""Readings of whole GPUs while a run goes; what the driver does not show is None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llmperf.types import DeviceSample

from llmperf_nvidia import smi

_open: list[Any] = []
"""NVML, once it is initialised; kept open between readings."""


def samples(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
    """One reading of each device by its NVML index; never raises."""
    library = _nvml()
    if library is not None:
        return tuple(_from_nvml(library, index) for index in devices)
    return _from_smi(devices)


def _nvml() -> Any | None:
    if not _open:
        try:
            import pynvml  # type: ignore[import-untyped]

            pynvml.nvmlInit()
        except Exception:  # no library, no driver
            return None
        _open.append(pynvml)
    return _open[0]


def _from_nvml(library: Any, index: int) -> DeviceSample:
    handle = _ask(lambda: library.nvmlDeviceGetHandleByIndex(index))
    if handle is None:
        return _unknown(index)
    memory = _ask(lambda: library.nvmlDeviceGetMemoryInfo(handle))
    milliwatts = _ask(lambda: library.nvmlDeviceGetPowerUsage(handle))
    return DeviceSample(
        index=index,
        memory_used_bytes=None if memory is None else memory.used,
        memory_total_bytes=None if memory is None else memory.total,
        utilisation_percent=_ask(lambda: float(library.nvmlDeviceGetUtilizationRates(handle).gpu)),
        power_watts=None if milliwatts is None else milliwatts / 1000,
        temperature_celsius=_ask(lambda: float(library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU))),
    )


def _ask(reading: Callable[[], Any]) -> Any | None:
    try:
        return reading()
    except Exception:  # not supported on this GPU, lost, no permission
        return None


def _from_smi(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
    fields = ("index", "memory.used", "memory.total", "utilization.gpu", "power.draw", "temperature.gpu")
    try:
        rows = {row["index"]: row for row in smi.query(*fields)}
    except OSError:
        rows = {}
    return tuple(_from_row(index, rows.get(str(index))) for index in devices)


def _from_row(index: int, row: dict[str, str | None] | None) -> DeviceSample:
    if row is None:
        return _unknown(index)
    return DeviceSample(
        index=index,
        memory_used_bytes=smi.mebibytes(row["memory.used"]),
        memory_total_bytes=smi.mebibytes(row["memory.total"]),
        utilisation_percent=smi.number(row["utilization.gpu"]),
        power_watts=smi.number(row["power.draw"]),
        temperature_celsius=smi.number(row["temperature.gpu"]),
    )


def _unknown(index: int) -> DeviceSample:
    return DeviceSample(index=index, memory_used_bytes=None, memory_total_bytes=None)
