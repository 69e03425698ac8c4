"""Data that installed plugins publish, for rules: devices and peaks, cases and models, FLOP counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING

from llmperf.cases.resolve import changes_from, flat_case
from llmperf.errors import LlmperfError, UserError
from llmperf.files.json_files import ByValue
from llmperf.plugins.discovery import Found, discover, find, names
from llmperf.plugins.facts import catalogue
from llmperf.plugins.loading import Plugins, plugins_for
from llmperf.types import Case, Change, FlopCount, Lora, Model, RunSpec, Workload
from llmperf.types.devices import DeviceInfo, Dtype, Offers, PeakFlops, device_names, normalised

if TYPE_CHECKING:
    from llmperf.cases.library import Library
    from llmperf.hookspecs import Role

MEMORY_SLACK = 0.08
"""Relative tolerance of a memory size: documents print `80` for 80 GB, for 79.6 GiB and for sizes between."""


@dataclass(frozen=True)
class VendorCatalogue:
    """The devices that one installed vendor plugin publishes."""

    vendor: str
    devices: tuple[tuple[DeviceInfo, Offers], ...]
    plugins: Plugins

    def exact(self, model: str) -> DeviceInfo | None:
        """The device with exactly that name or alias; None if there is none."""
        return self._by_name.get(normalised(model, self.vendor))

    @cached_property
    def _by_name(self) -> dict[str, DeviceInfo]:
        """Each device under all its names; the first device where two share a name."""
        devices = [device for device, _ in reversed(self.devices)]
        return {normalised(name, self.vendor): device for device in devices for name in device_names(device)}

    def peak(self, device: DeviceInfo, dtype: Dtype) -> PeakFlops | None:
        """The published peak of the device; None where the vendor publishes none."""
        key = (device.model, dtype)
        if key not in self._peaks:
            peak = self.plugins.peak(*key)
            self._peaks[key] = None if isinstance(peak, str) else peak
        return self._peaks[key]

    @cached_property
    def _peaks(self) -> dict[tuple[str, Dtype], PeakFlops | None]:
        """The plugin's answers so far: a document may have thousands of rows on one device."""
        return {}

    def precisions(self, device: DeviceInfo) -> tuple[str, ...]:
        """Dtypes that the device computes in."""
        return next((offers.precisions for known, offers in self.devices if known == device), ())


def about(memory_bytes: int | None, printed_gb: float) -> bool:
    """Check whether a printed size in GB, binary or decimal, may mean so many bytes; True if these are unknown."""
    if memory_bytes is None:
        return True
    sizes = (memory_bytes / 2**30, memory_bytes / 1e9)
    return min(sizes) * (1 - MEMORY_SLACK) <= printed_gb <= max(sizes) * (1 + MEMORY_SLACK)


@cache
def installed() -> tuple[Found, ...]:
    """Every installed plugin; discovery takes time and is done once for many documents."""
    return tuple(discover())


def installed_vendors() -> frozenset[str]:
    """Names of the installed vendor plugins."""
    return installed_names("vendor")


@cache
def installed_names(role: Role) -> frozenset[str]:
    """Names of the installed plugins in a role."""
    return frozenset(names(role, installed()))


def vendor_catalogue(vendor: str) -> VendorCatalogue | None:
    """Data that the vendor's plugin publishes; None where it is not installed, broken, or publishes nothing."""
    answer = _vendor(vendor)
    return None if isinstance(answer, str) else answer


def vendor_trouble(vendor: str) -> str | None:
    """The reason why an installed vendor plugin cannot say what it publishes, in one line; None where it can."""
    answer = _vendor(vendor)
    return answer if isinstance(answer, str) else None


@cache
def _vendor(vendor: str) -> VendorCatalogue | str | None:
    """The vendor's catalogue, or why there is none; None without a reason."""
    if vendor not in installed_vendors():
        return None
    try:
        plugin = find("vendor", vendor, installed())
        plugins = Plugins([plugin])
        probes = catalogue(plugin, plugins)
    except LlmperfError as error:
        return str(error)
    devices = tuple((device, probe.offers) for probe in probes for device in probe.devices)
    return VendorCatalogue(vendor, devices, plugins) if devices else None


@cache
def given_peak(vendor: str, model: str, dtype: Dtype) -> PeakFlops | str:
    """The peak that an installed vendor's plugin gives without timing it, or why there is none."""
    plugins = Plugins([find("vendor", vendor, installed())])
    if plugins.answers("llmperf_time_peak"):
        return f"{vendor} times the peak of its devices"
    none = f"{vendor}'s installed plugin gives none"
    return (plugins.peak(model, dtype) if plugins.answers("llmperf_peak_flops") else None) or none


@cache
def _shipped() -> Library:
    from llmperf.cases.library import library

    return library()


@cache
def known_library() -> Library:
    """Models and cases that the core and all installed plugins ship; broken plugins and files are left out."""
    from llmperf.cases.library import whole_library

    return whole_library()


@cache
def known_case(name: str) -> Case | None:
    """The case of that name, from the core or else from an installed plugin; None if none ships it."""
    try:
        shelf = next((shelf for shelf in (_shipped, known_library) if name in shelf().paths("cases")), None)
        return shelf().case(name) if shelf else None
    except UserError:
        return None


@cache
def known_model(name: str) -> Model | None:
    """The model of that name, from the core or else from an installed plugin; None if none ships it."""
    try:
        shelf = next((shelf for shelf in (_shipped, known_library) if name in shelf().paths("models")), None)
        return shelf().model(name) if shelf else None
    except UserError:
        return None


@cache
def extensions() -> Plugins:
    """Every installed extension that can be loaded."""
    return plugins_for((), installed())


@lru_cache(maxsize=4096)
def flops_of(model: Model, lora: Lora | int | None, *, seq_len: int, gradient_checkpointing: bool) -> FlopCount | None:
    """The FLOP count of an extension, or else of the core; None for adapters on modules the model lacks.

    `lora` may also be the number of their parameters.
    """
    from llmperf.accounting import flops
    from llmperf.accounting.parameters import lora_parameters

    try:
        adapters = lora_parameters(model, lora) if isinstance(lora, Lora) else lora
    except UserError:
        return None
    workload = Workload(seq_len=seq_len, gradient_checkpointing=gradient_checkpointing, lora_parameters=adapters)
    return flops.flops_of(extensions(), model, workload)


_known_departures = ByValue[tuple[Change, ...]]()


def departures(case: Case, spec: RunSpec) -> tuple[Change, ...]:
    """The leaves of contract, tuning and framework options that differ from those of an installed case."""
    values = (case.name, spec.contract, spec.tuning, spec.framework, spec.challenge)
    return _known_departures.get(values, lambda: changes_from(flat_case(case), spec, {}))
