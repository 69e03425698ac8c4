"""Activity of others on a host, before a run and while it is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from llmperf.types.devices import ThrottleReason
from llmperf.types.frozen import dataclass
from llmperf.types.units import Count, NonNegative

Resource = Literal["cpu", "memory", "io"]
"""Resources that tasks can wait for, as in the kernel's pressure stall information."""

FAULTS: tuple[ThrottleReason, ...] = ("heat", "power brake", "hardware slowdown")
"""Reasons to run slower that are neither limits of the device as sold nor settings of a user."""
MAX_PROGRAMS = 5
"""Programs that a reading lists."""
WINDOW_PARTS = 10
"""Equal parts of the measured window, for each of which throttling and clocks are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyProgram:
    """A program that is not of the run; all its processes together."""

    name: str
    """Name from the kernel, at most 15 characters."""
    cpu_share: NonNegative
    """Share of the cores that the run may use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBefore:
    """A host and its devices just before the ranks are started. Unknown figures are None or left out."""

    other_cpu_share: NonNegative | None = None
    """Share of the cores that processes other than the run's own used."""
    programs: tuple[BusyProgram, ...] = ()
    """The largest of them, largest first; without those that llmperf cannot see, such as another container's."""
    other_processes: Count | None = None
    """Processes on the devices."""
    device_programs: tuple[str, ...] = ()
    """Their names, where this process can see them."""
    utilisation_percent: NonNegative | None = None
    """Utilisation of the busiest device; None where the devices are the host's own cores."""
    throttle_reasons: tuple[ThrottleReason, ...] | None = None
    """Reasons why any device was slowed; empty if none was."""
    load_average: NonNegative | None = None
    """Tasks that run or wait, mean of the last minute; llmperf's own planning counts too."""
    pressure: Mapping[Resource, NonNegative] = field(default_factory=dict)
    """Share of the time in which some task waited for a resource."""
    memory_total_bytes: Count | None = None
    """Memory of the host."""
    memory_available_bytes: Count | None = None
    """Memory that new processes can have without swapping."""
    swapped_bytes_per_second: NonNegative | None = None
    """Traffic to and from swap space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConditions:
    """Activity of others on one node, just before the run and in its measured window."""

    node_rank: Count
    """Rank of the node, from 0."""
    before: LoadBefore | None = None
    """Just before the ranks were started; None if it was not read."""
    other_cpu_share: NonNegative | None = None
    """Share of the cores that processes other than the run's own had in the measured window; None if unknown."""
    most_other_cpu_share: NonNegative | None = None
    """The largest share between two readings."""
    programs: tuple[BusyProgram, ...] = ()
    """The largest of those processes, by program."""
    other_processes: Count | None = None
    """Most processes on the devices that were not the run's; None if unknown."""
    pressure: Mapping[Resource, NonNegative] = field(default_factory=dict)
    """Share of the measured window in which some task, also of the run itself, waited for a resource."""
    most_memory_pressure: NonNegative | None = None
    """The largest share for memory between two readings."""
    least_memory_available_bytes: Count | None = None
    """Least that new processes could have had without swapping."""
    swapped_bytes: Count | None = None
    """Traffic to and from swap space."""
    throttling: Mapping[str, tuple[NonNegative | None, ...]] = field(default_factory=dict)
    """Share of the readings in which any device was slowed, for each reason, in each tenth of the measured
    window; None for a tenth without a reading."""
    clock_hertz: tuple[NonNegative | None, ...] = ()
    """Mean clock of all devices' compute units in each tenth of the measured window; empty if no device shows it."""
