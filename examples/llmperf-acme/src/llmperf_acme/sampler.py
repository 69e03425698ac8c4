"""Readings of whole devices while a run goes; None where the tool gives no answer. Never raises."""

from __future__ import annotations

from llmperf.types import DeviceSample

from llmperf_acme.tool import Row, rows


def samples(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
    """One reading of each device by its index."""
    try:
        found = {one.index: one for one in rows()}
    except OSError:
        found = {}
    return tuple(_sample(index, found.get(index)) for index in devices)


def _sample(index: int, row: Row | None) -> DeviceSample:
    if row is None:
        return DeviceSample(index=index, memory_used_bytes=None, memory_total_bytes=None)
    return DeviceSample(
        index=index,
        memory_used_bytes=row.memory_used_mib * 2**20,
        memory_total_bytes=row.memory_total_mib * 2**20,
        utilisation_percent=row.percent,
        power_watts=row.watts,
        temperature_celsius=row.celsius,
    )
