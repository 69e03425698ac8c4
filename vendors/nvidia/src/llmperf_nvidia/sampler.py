"""Readings of whole GPUs while a run goes; what the driver does not show is None."""

from __future__ import annotations

from typing import Any

from llmperf.types import DeviceSample

from llmperf_nvidia import nvml, smi, throttle

FIELDS = ("index", "memory.used", "memory.total", "utilization.gpu", "power.draw", "temperature.gpu")
REASONS = "clocks_throttle_reasons.active"
"""Newer drivers call it `clocks_event_reasons.active` and still know this name."""

_open: list[Any] = []
"""NVML, once it is initialised; kept open between readings."""


def samples(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
    """One reading of each device by its NVML index. OSError, one line, if a GPU is gone."""
    library = _library()
    if library is None:
        return _from_smi(devices)
    return tuple(_from_nvml(library, index) for index in devices)


def _library() -> Any | None:
    if not _open:
        try:
            _open.append(nvml.open_library())
        except OSError:  # no driver, or one that only its own tool can talk to
            return None
    return _open[0]


def _from_nvml(library: Any, index: int) -> DeviceSample:
    try:
        handle = nvml.ask(library, lambda: library.nvmlDeviceGetHandleByIndex(index))
        return _unknown(index) if handle is None else _reading(library, index, handle)
    except library.NVMLError as error:
        raise OSError(f"GPU {index}: {nvml.in_words(library, error)}") from None


def _reading(library: Any, index: int, handle: Any) -> DeviceSample:
    memory = nvml.ask(library, lambda: library.nvmlDeviceGetMemoryInfo(handle))
    sensor = library.NVML_TEMPERATURE_GPU
    milliwatts = nvml.ask(library, lambda: library.nvmlDeviceGetPowerUsage(handle))
    millijoules = nvml.ask(library, lambda: library.nvmlDeviceGetTotalEnergyConsumption(handle))
    return DeviceSample(
        index=index,
        memory_used_bytes=memory.used if memory else None,
        memory_total_bytes=memory.total if memory else None,
        utilisation_percent=nvml.ask(library, lambda: float(library.nvmlDeviceGetUtilizationRates(handle).gpu)),
        power_watts=None if milliwatts is None else milliwatts / 1000,
        temperature_celsius=nvml.ask(library, lambda: float(library.nvmlDeviceGetTemperature(handle, sensor))),
        energy_joules=None if millijoules is None else millijoules / 1000,
        throttle_reasons=throttle.throttle_reasons(library, handle),
        process_ids=nvml.ask(library, lambda: _process_ids(library, handle)),
    )


def _process_ids(library: Any, handle: Any) -> tuple[int, ...]:
    """Processes that hold a context for computing on it, by their ids on the host."""
    return tuple(sorted(int(one.pid) for one in library.nvmlDeviceGetComputeRunningProcesses(handle)))


def _from_smi(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
    try:
        rows = {row["index"]: row for row in smi.query(FIELDS, [REASONS])}
    except OSError:
        rows = {}
    return tuple(_from_row(index, rows.get(str(index))) for index in devices)


def _from_row(index: int, row: smi.Row | None) -> DeviceSample:
    if row is None:
        return _unknown(index)
    mask = smi.mask(row[REASONS])
    return DeviceSample(
        index=index,
        memory_used_bytes=smi.mebibytes(row["memory.used"]),
        memory_total_bytes=smi.mebibytes(row["memory.total"]),
        utilisation_percent=smi.number(row["utilization.gpu"]),
        power_watts=smi.number(row["power.draw"]),
        temperature_celsius=smi.number(row["temperature.gpu"]),
        throttle_reasons=None if mask is None else throttle.in_words(mask),
    )


def _unknown(index: int) -> DeviceSample:
    return DeviceSample(index=index, memory_used_bytes=None, memory_total_bytes=None)
