"""Answers of plugins about devices and libraries: what a vendor sees and offers, peaks, samples, and other facts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from types import TracebackType
from typing import Any, Literal, Protocol, runtime_checkable

from llmperf.types.frozen import dataclass
from llmperf.types.units import Count, NonNegative, Positive

Dtype = Literal["fp32", "tf32", "bf16", "fp16", "fp8"]
"""A dtype that devices compute matrix products in, and have a peak for."""

ThrottleReason = Literal["heat", "power limit", "power brake", "hardware slowdown", "clock setting", "other"]
"""The reason why a device runs slower than it could: `heat`: it is too hot; `power limit`: it is at its power cap;
`power brake`: its power supply asks for it; `hardware slowdown`: one of these or a fault, without more detail; `clock
setting`: its clocks were set lower; `other`: anything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """One device as the vendor's management library names it."""

    index: Count
    """Its number in the vendor's tool."""
    model: str
    """The exact name, by which the peak table is searched, such as `NVIDIA A100-SXM4-40GB`."""
    memory_bytes: Positive | None
    """Memory of the whole device; None if unknown."""
    uuid: str | None = None
    """Identifier from the vendor's tool."""
    kind: Literal["accelerator", "cpu"] = "accelerator"
    """Kind of the device."""
    divisible: bool = False
    """The device can be split into any number of equal shares, one per rank, as a host CPU can."""
    details: Mapping[str, str] = field(default_factory=dict)
    """Further facts that the vendor's tool shows, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """Capabilities of the devices; compared with a framework's `Needs`."""

    precisions: tuple[str, ...]
    """Dtypes of matrix products, such as `bf16`; computed natively, never silently by another dtype. Names that
    this version of llmperf does not know are allowed."""
    runtimes: tuple[str, ...]
    """Tensor libraries that the vendor supports: `torch`, `paddle`."""
    collective_backend: str
    """`gloo`, `nccl`, `bkcl`, `hccl`, ..."""
    features: tuple[str, ...] = ()
    """Free names that a framework may need, such as `flash_attention`."""
    runtime_problems: Mapping[str, str] = field(default_factory=dict)
    """Reasons why a tensor library that is installed here cannot use the devices, by its name (`torch`, `paddle`): one
    line with the remedy, such as a newer driver. Empty if no reason is known, and for devices that are not here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Devices that one vendor plugin sees on one node. No devices: `problems` says why."""

    vendor: str
    """Name of the vendor plugin."""
    devices: tuple[DeviceInfo, ...]
    """Devices in the order of their indices."""
    offers: Offers
    """Capabilities of the devices."""
    driver: str | None = None
    """Version; None if unknown."""
    interconnect: str | None = None
    """Between devices, such as `NVLink`; None if unknown."""
    simulated: bool = False
    """The devices come from a catalogue or a stand-in, not from this machine."""
    problems: tuple[str, ...] = ()
    """One line each, with the cause and the remedy."""

    @property
    def on_cpu(self) -> bool:
        """Ranks compute on a host CPU."""
        return any(device.kind == "cpu" for device in self.devices)


Confidence = Literal["datasheet", "measured", "low"]
"""Reliability of a peak. `datasheet`: the vendor's own document has the figure for this device. `measured`: timed on
this host. `low`: derived from another figure, or from a secondary source, because no datasheet was at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakFlops:
    """Dense peak of one whole device, with its source: a peak without a source cannot be checked."""

    device_model: str
    """Model of the device, as in `DeviceInfo.model`."""
    dtype: str
    """The dtype it holds for, such as `bf16`."""
    flops_per_second: NonNegative
    """Dense, no sparsity."""
    source: str
    """Datasheet and page, or how it was measured."""
    date: str
    """ISO date of the source or the measurement."""
    confidence: Confidence = "datasheet"
    """Reliability of the figure: `low` if it is derived or from a secondary source, and then `source` says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSample:
    """One reading of one whole device; what the vendor's tool does not show is None."""

    index: Count
    """Its number in the vendor's tool."""
    memory_used_bytes: Count | None
    """Memory used by all processes."""
    memory_total_bytes: Count | None
    """Memory of the whole device."""
    utilisation_percent: NonNegative | None = None
    """0 to 100."""
    power_watts: NonNegative | None = None
    """Drawn now."""
    temperature_celsius: float | None = None
    """Temperature of the chip."""
    energy_joules: NonNegative | None = None
    """Energy since a fixed moment, such as when the driver was loaded: a counter, of which only differences matter."""
    clock_hertz: NonNegative | None = None
    """Clock of its compute units now."""
    throttle_reasons: tuple[ThrottleReason, ...] | None = None
    """Reasons why it runs slower than it could; empty if it does not. Being idle is not a reason. None if unknown."""
    process_ids: tuple[Count, ...] | None = None
    """Processes that compute on it, as the driver counts them; None if unknown."""


@runtime_checkable
class DeviceEvent(Protocol):
    """A mark in the device's queue of work, set without waiting."""

    def ready(self) -> bool:
        """Check whether the device has reached it; never blocks."""

    def seconds_since(self, earlier: Any) -> float:
        """Device time between two reached events, in seconds."""


class Device(Protocol):
    """One rank's device, bound by `llmperf_setup_device`; a context manager.

    A device whose allocator keeps more memory than it hands out may also have a method `peak_reserved_bytes()`, which
    returns the most bytes that it has taken from the device since the last reset.
    """

    places: Mapping[str, str]
    """Names of the device for each tensor library that the vendor supports, by the names in `Offers.runtimes`:
    `{"torch": "cuda:0", "paddle": "gpu:0"}`."""
    collective_backend: str
    """Backend of collectives, as in `Offers.collective_backend`."""

    def event(self) -> DeviceEvent:
        """Set a mark at the present end of the device's queue."""

    def synchronize(self) -> None:
        """Block the host until all work handed to the device is done."""

    def peak_memory_bytes(self) -> int | None:
        """Highest memory use of this rank since the last reset, in bytes; None if it cannot be known."""

    def reset_peak_memory(self) -> None:
        """Reset the peak to the present memory use."""

    def close(self) -> None:
        """Release the device."""

    def __enter__(self) -> Device: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCheck:
    """A check of this machine and environment that `llmperf doctor` runs."""

    subject: str
    """The checked thing, such as `host compiler`."""
    problem: Callable[[], str | None]
    """Returns one line that says what is missing, or None."""
    mend: str | None = None
    """The shell command that installs what is missing."""
    required: bool = False
    """Ranks cannot run without it. `plan` and `run` then check the environment of the ranks, and refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts that a vendor or framework plugin gives the core; those of all loaded plugins are joined."""

    environment_names: tuple[str, ...] = ()
    """Environment variables that change how a run goes: results record them."""
    environment_prefixes: tuple[str, ...] = ()
    """Prefixes of such names, such as `ACME_`."""
    waiting_frames: tuple[str, ...] = ()
    """Parts of `FILE in FUNCTION` as a stack trace has them, of calls that wait for other ranks or for the device.

    Another rank hangs then, not the rank in such a call."""
    packages: tuple[str, ...] = ()
    """Import names of packages whose version affects the training speed: reports show these versions."""
    device_aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Other names that documents use, by vendor or by exact device model: regular expressions, case ignored."""
    host_checks: tuple[HostCheck, ...] = ()
    """Checks for what the plugin needs and no requirement of its distribution can name."""
    framework_options: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    """The options `framework.*` of a framework, each with its values, empty for other than a few: shells offer them.

    `llmperf.option_choices` makes it of what `llmperf.option_problems` takes."""


def normalised(model: str, vendor: str) -> str:
    """A device's name in lower case, without spaces, dashes, underscores and a leading vendor's name."""
    return re.sub(r"[\s_-]+", "", model).lower().removeprefix(vendor)


def device_names(device: DeviceInfo) -> list[str]:
    """Names of a device: its model, and its vendor's aliases (`details["aliases"]`, separated by commas)."""
    aliases = [alias.strip() for alias in device.details.get("aliases", "").split(",")]
    return [device.model, *(alias for alias in aliases if alias)]
