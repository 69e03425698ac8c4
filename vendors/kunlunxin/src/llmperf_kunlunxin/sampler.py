"""Readings of whole cards while a run goes; None where the tool gives nothing plausible. Never raises."""

from __future__ import annotations

from llmperf.types import DeviceSample

from llmperf_kunlunxin.cards import About, about, machine_lines
from llmperf_kunlunxin.layouts import Reading, read_rows

_known: list[About] = []
"""What the tool says of itself, once it has answered."""


def samples(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
    """One reading of each device number; a row that does not fit its layout tells nothing."""
    readings = _readings()
    return tuple(_sample(index, readings.get(index)) for index in devices)


def _readings() -> dict[int, Reading]:
    try:
        if not _known:
            _known.append(about())
        tool = _known[0]
        return {one.index: one for one in read_rows(machine_lines(tool.name), tool.major, tool.models).readings}
    except OSError:
        return {}


def _sample(index: int, one: Reading | None) -> DeviceSample:
    if one is None:
        return DeviceSample(index=index, memory_used_bytes=None, memory_total_bytes=None)
    return DeviceSample(
        index=index,
        memory_used_bytes=one.memory_used_mib * 2**20,
        memory_total_bytes=one.memory_total_mib * 2**20,
        utilisation_percent=one.utilisation_percent,
        power_watts=one.power_watts,
        temperature_celsius=one.temperature_celsius,
    )
