"""The machine of a run: hardware, software, load of its hosts, and the results of each node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from llmperf.types.devices import ThrottleReason
from llmperf.types.frozen import dataclass
from llmperf.types.layout import RankDimension
from llmperf.types.units import Count, NonNegative, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The machine, as probed."""

    vendor: str
    """Name of the vendor plugin."""
    device_model: str
    """Name from the vendor's management library."""
    nodes: Positive
    """Machines."""
    devices_per_node: Positive
    """Ranks on each node."""
    device_share: NonNegative
    """Part of one physical device that one rank had."""
    device_memory_bytes: Positive | None
    """Memory of one whole device; None if unknown."""
    driver: str | None
    """Version; None if unknown."""
    interconnect: str | None
    """Between devices; None if unknown."""
    host_cpu: str | None
    """Model of the host's processor, on most nodes; None if unknown."""
    host_memory_bytes: Positive | None
    """Memory of one node, on most nodes; None if unknown."""
    simulated: bool
    """The devices are a stand-in."""

    @property
    def divided(self) -> bool:
        """Ranks share a device."""
        return self.device_share != 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """Software of a run: what most nodes have. `Result.nodes` lists what is different on the others."""

    os: str
    """Name and version."""
    kernel: str
    """Release."""
    python: str
    """Version the ranks ran with."""
    worker_environment: str | None = None
    """The Python of the ranks, if it was not llmperf's own: the name of its environment, or its path."""
    packages: Mapping[str, str]
    """Versions of the packages that the ranks imported, by import name."""
    notable_packages: tuple[str, ...] = ()
    """Packages whose version affects the training speed, as the run's plugins say; reports name these."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables the ranks saw: those that the run's plugins name or set."""
    startup_modules: Mapping[str, str] = field(default_factory=dict)
    """Files of `sitecustomize` and `usercustomize`, which the ranks' interpreter imported by itself, by name; without
    those that came with the interpreter."""


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


MAX_DIFFERENCES = 32
"""Differences that a result lists of one node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """One node of a run: its ranks, and what is different from most nodes."""

    node_rank: Count
    """Rank of the node, from 0."""
    host: str
    """Its name, as the launcher takes it; `node-000` and so on in a submission."""
    interface: str | None
    """Network interface that its ranks used to reach others; None if unknown."""
    first_rank: Count
    """The first of its ranks, whose local rank is 0; the others follow one another."""
    last_rank: Count
    """The last of its ranks."""
    coordinates: Mapping[RankDimension, tuple[Count, Count]]
    """Lowest and highest index of its ranks in each dimension of more than one rank. `parallelism.rank_order` says how
    ranks are numbered."""
    clock_offset_seconds: float | None
    """Its wall clock minus the controller's; None if unknown. No figure depends on it."""
    clock_error_seconds: NonNegative | None
    """Largest error of that offset."""
    lost_seconds: NonNegative | None = None
    """Silence of the node before the controller gave it up; None if it was never lost."""
    differs: Mapping[str, str | int | None] = field(default_factory=dict)
    """Differences from `hardware` and `software`, by field; `packages.NAME`, `environment.NAME` and
    `startup_modules.NAME` for single packages, variables and modules. None: it has none, or it is unknown."""
    more_differences: Count = 0
    """Further differences, which are not listed."""


STRAGGLER_SHARE = 0.05
"""A rank is a straggler only if it was busy for longer than its peers by more than this share."""
MAX_STRAGGLERS = 64
"""Stragglers that a result lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """A rank that the others waited for."""

    rank: Count
    """The rank."""
    node_rank: Count
    """The node that it ran on."""
    busy_seconds: NonNegative
    """Measured window without waits for communication."""
    lag_seconds: NonNegative
    """Excess over the median of its peers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Waits of computation for communication in the measured window, and the ranks that made others wait."""

    share: NonNegative
    """Mean over ranks: waits / measured window. Communication beside computation is not counted."""
    least_share: NonNegative
    """Share of the rank that waited least."""
    most_share: NonNegative
    """Share of the rank that waited most."""
    stragglers: tuple[Straggler, ...]
    """The slowest first, at most MAX_STRAGGLERS."""
    more_stragglers: Count = 0
    """Further ones, which are not listed."""
    slow_nodes: tuple[Count, ...] = ()
    """Nodes of which every rank is a straggler."""
    cost_seconds: NonNegative
    """Time by which the measured window might have been shorter if the stragglers had been as fast as the slowest of
    their other peers; 0 without stragglers."""
    method: str
    """Method by which stragglers were found."""
