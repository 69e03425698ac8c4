"""Readings of whole NPUs while a run goes; None where `npu-smi` gives no answer. Never raises."""

from __future__ import annotations

from llmperf.types import DeviceSample

from llmperf_ascend.npus import Npu, read_table


def samples(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
    """One reading of each NPU by its place in the table."""
    try:
        found = {one.index: one for one in read_table().npus}
    except OSError:
        found = {}
    return tuple(_sample(index, found.get(index)) for index in devices)


def _sample(index: int, one: Npu | None) -> DeviceSample:
    if one is None:
        return DeviceSample(index=index, memory_used_bytes=None, memory_total_bytes=None)
    return DeviceSample(
        index=index,
        memory_used_bytes=one.memory_used_mb * 2**20,
        memory_total_bytes=one.memory_total_mb * 2**20,
        utilisation_percent=one.utilisation_percent,
        power_watts=one.power_watts,
        temperature_celsius=one.temperature_celsius,
    )
