"""Readings of GPUs during a run; what the driver does not show is None."""

from __future__ import annotations

from typing import Any

from llmperf.types import DeviceSample
from llmperf_vendorkit import samples_by_index

from llmperf_nvidia import nvml, smi

_library: list[Any] = []
"""NVML once it is initialised; kept open between readings."""


def samples(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
    """One reading of each GPU by its NVML index, through NVML or `nvidia-smi`; OSError if a GPU is lost."""
    if not _library:
        try:
            _library.append(nvml.open_library())
        except OSError:  # no driver, or only its tool is usable
            try:
                readings = smi.readings().readings
            except OSError:
                readings = ()
            return samples_by_index(devices, [reading.sample() for reading in readings])
    return samples_by_index(devices, [_from_nvml(_library[0], index) for index in devices])


def _from_nvml(library: Any, index: int) -> DeviceSample:
    try:
        handle = nvml.ask(library, lambda: library.nvmlDeviceGetHandleByIndex(index))
        if handle is None:
            return DeviceSample(index=index, memory_used_bytes=None, memory_total_bytes=None)
        memory = nvml.ask(library, lambda: library.nvmlDeviceGetMemoryInfo(handle))
        sensor = library.NVML_TEMPERATURE_GPU
        milliwatts = nvml.ask(library, lambda: library.nvmlDeviceGetPowerUsage(handle))
        millijoules = nvml.ask(library, lambda: library.nvmlDeviceGetTotalEnergyConsumption(handle))
        megahertz = nvml.ask(library, lambda: library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM))
        return DeviceSample(
            index=index,
            memory_used_bytes=memory.used if memory else None,
            memory_total_bytes=memory.total if memory else None,
            utilisation_percent=nvml.ask(library, lambda: float(library.nvmlDeviceGetUtilizationRates(handle).gpu)),
            power_watts=None if milliwatts is None else milliwatts / 1000,
            temperature_celsius=nvml.ask(library, lambda: float(library.nvmlDeviceGetTemperature(handle, sensor))),
            energy_joules=None if millijoules is None else millijoules / 1000,
            clock_hertz=None if megahertz is None else 1e6 * megahertz,
            throttle_reasons=nvml.throttle_reasons(library, handle),
            process_ids=nvml.ask(library, lambda: _process_ids(library, handle)),
        )
    except library.NVMLError as error:
        raise OSError(f"GPU {index}: {nvml.in_words(library, error)}") from None


def _process_ids(library: Any, handle: Any) -> tuple[int, ...]:
    """Processes with a compute context on the GPU, by their ids on the host."""
    return tuple(sorted(int(process.pid) for process in library.nvmlDeviceGetComputeRunningProcesses(handle)))
