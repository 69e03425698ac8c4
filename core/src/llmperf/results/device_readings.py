"""Figures of the devices of all nodes in the measured window: means, energy, throttling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from llmperf.runfolder.readings import COVERED as COVERED
from llmperf.runfolder.readings import DeviceReadings

if TYPE_CHECKING:
    from llmperf.runfolder.contents import RunRecords

Source = Literal["counter", "power readings"]

FEWEST_READINGS = 3
"""Smallest number of readings in the window: with fewer, its edges weigh more than the time between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """Energy of all devices in the measured window."""

    joules: float
    watts: float
    """Mean power of a device."""
    source: Source


def mean(records: RunRecords, name: Literal["utilisation_percent", "power_watts"]) -> float | None:
    """Mean of one figure over the devices, of each of them over the window; None unless every device showed it.

    A card of two chips may show its power on one of them: that is no chip's own.
    """
    known = [getattr(device, name).value for device in _devices(records) if getattr(device, name).count]
    return fmean(known) if len(known) == devices(records) else None


def most(records: RunRecords, name: Literal["memory_used_bytes", "memory_total_bytes"]) -> int | None:
    """The largest value of one figure on any device in the whole run; None unless every device showed it."""
    known: list[int] = [size for device in _devices(records) if (size := getattr(device, name)) is not None]
    return max(known) if len(known) == devices(records) else None


def partly_shown(records: RunRecords) -> dict[str, int]:
    """Figures that only some devices showed, with the number of these devices; the figures are then null."""
    ways: dict[str, Callable[[DeviceReadings], bool]] = {
        "memory in use": lambda device: device.memory_used_bytes is not None,
        "utilisation": lambda device: device.utilisation_percent.count > 0,
        "power": lambda device: device.power_watts.count > 0,
        "throttling": lambda device: device.throttle_known,
    }
    shown = {name: sum(map(known, _devices(records))) for name, known in ways.items()}
    return {name: known for name, known in shown.items() if 0 < known < devices(records)}


def _devices(records: RunRecords) -> list[DeviceReadings]:
    return [device for node in records.readings.values() for device in node.devices.values()]


def unread(records: RunRecords) -> tuple[float, float] | None:
    """Seconds of the measured window in which not every device was read, and the length of the window.

    Of several nodes, those of the node where the most was missed. None if no device was ever read.
    """
    missed = []
    for node, span in records.windows.items():
        known = [device for device in records.node_devices(node) if device.first is not None]
        if known:
            begin = max(span[0], *(device.first for device in known if device.first is not None))
            end = min(span[1], *(device.last for device in known))
            missed.append((span[1] - span[0] - max(0.0, end - begin), span[1] - span[0]))
    return max(missed, default=None)


def throttling(records: RunRecords) -> dict[str, float] | None:
    """Share of the window's samples in which any device of a node was slowed, for each reason; of several nodes the
    largest share. None where unknown, also of one device alone.
    """
    if sum(device.throttle_known for device in _devices(records)) != devices(records):
        return None
    shares: dict[str, float] = {}
    for node in records.readings.values():
        for reason, count in node.throttled.items():
            shares[reason] = max(count / node.throttle_known, shares.get(reason, 0.0))
    return dict(sorted(shares.items()))


def energy(records: RunRecords, window_seconds: float | None) -> Energy | None:
    """Mean power of all devices in the common window of their node's ranks x the seconds of the slowest rank's window.

    None unless the readings are of every device, at least three of them in each node's window and over 90 % of it.
    """
    nodes = [records.readings.get(node) for node in records.windows]
    if window_seconds is None or not nodes:
        return None
    if any(node is None or node.inside < FEWEST_READINGS for node in nodes):
        return None
    ours = [device for node in records.windows for device in records.node_devices(node)]
    ways: tuple[tuple[Source, list[float | None]], ...] = (
        ("counter", [device.counted.watts() for device in ours if device.counted.rising]),
        ("power readings", [device.integral.watts() for device in ours]),
    )
    for source, watts in ways:
        known = [power for power in watts if power is not None]
        if len(known) == devices(records):
            return Energy(joules=sum(known) * window_seconds, watts=sum(known) / len(known), source=source)
    return None


def devices(records: RunRecords) -> int:
    """Devices of the whole run; where ranks share one, it counts once on each node."""
    plan = records.plan
    each = len(plan.probe.devices) if plan.device_share < 1 else plan.layout.devices_per_node
    return plan.layout.nodes * each
