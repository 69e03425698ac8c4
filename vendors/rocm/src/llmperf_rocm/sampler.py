"""Readings of whole GPUs while a run goes; None where nothing answers. Never raises."""

from __future__ import annotations

from collections.abc import Callable

from llmperf.types import DeviceSample

from llmperf_rocm import commands
from llmperf_rocm.gpu import Gpu
from llmperf_rocm.gpus import gpus

_source: list[Callable[[], list[Gpu]]] = []
"""Which interface has answered."""


def samples(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
    """One reading of each GPU by its index."""
    found = {one.index: one for one in _readings()}
    return tuple(_sample(index, found.get(index)) for index in devices)


def _readings() -> list[Gpu]:
    try:
        if not _source:
            found, source = gpus()
            _source.append(_without_names if source is commands.through_amd_smi else source)
            return found
        return _source[0]()
    except OSError:
        return []


def _without_names() -> list[Gpu]:
    """Half of the work, once a second."""
    return commands.through_amd_smi(with_names=False)


def _sample(index: int, one: Gpu | None) -> DeviceSample:
    if one is None:
        return DeviceSample(index=index, memory_used_bytes=None, memory_total_bytes=None)
    return DeviceSample(
        index=index,
        memory_used_bytes=one.memory_used_bytes,
        memory_total_bytes=one.memory_total_bytes,
        utilisation_percent=one.utilisation_percent,
        power_watts=one.power_watts,
        temperature_celsius=one.temperature_celsius,
        energy_joules=one.energy_joules,
    )
