"""What others had of the host and the devices while a run was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf.measuring.host_load import other_share
from llmperf.results import device_readings

if TYPE_CHECKING:
    from llmperf.runfolder.contents import RunRecords


def other_cpu_share(records: RunRecords) -> float | None:
    """Share of the cores that others had in the measured window; None where fewer than two samples are near it.

    Where the samples inside reach over less than half of it, the last before it and the first after it count too.
    """
    if (span := device_readings.window(records)) is None:
        return None
    begin, end = span
    hosts = [(one.monotonic + one.query_seconds, one.host) for one in records.samples if one.host is not None]
    inside = [one for one in hosts if begin <= one[0] <= end]
    if not inside or inside[-1][0] - inside[0][0] < (end - begin) / 2:
        inside = [one for one in hosts if one[0] < begin][-1:] + inside + [one for one in hosts if one[0] > end][:1]
    return other_share(inside)


def other_processes(records: RunRecords) -> int | None:
    """Most processes on the devices that were not the run's, of the samples in the window; None where unknown."""
    counts = [one.host.other_processes for one in device_readings.readings(records) if one.host is not None]
    return max((one for one in counts if one is not None), default=None)
