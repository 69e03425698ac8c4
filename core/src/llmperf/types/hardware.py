"""The hardware and software of a run, as its result names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from llmperf.types.frozen import dataclass
from llmperf.types.units import NonNegative, Positive


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
