"""What installed vendor plugins publish of their devices, as rules hold documents against it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from llmperf.errors import LlmperfError
from llmperf.plugins.discovery import Found, discover, find, names
from llmperf.plugins.loading import Plugins, catalogue
from llmperf.types.devices import DeviceInfo, Offers, PeakFlops, Precision
from llmperf.vendorkit.peaks import device_names, normalised

MEMORY_SLACK = 0.08
"""Relative; `80` is printed for 80 GB, for 79.6 GiB and for all between."""


@dataclass(frozen=True)
class VendorCatalogue:
    """The devices that one installed vendor plugin publishes."""

    vendor: str
    devices: tuple[tuple[DeviceInfo, Offers], ...]
    plugins: Plugins

    def exact(self, model: str) -> DeviceInfo | None:
        """The device of that name or alias, compared whole; None for any other."""
        return self._by_name.get(normalised(model, self.vendor))

    @cached_property
    def _by_name(self) -> dict[str, DeviceInfo]:
        """Each device under all its names; the first where two have one."""
        devices = [one for one, _ in reversed(self.devices)]
        return {normalised(name, self.vendor): one for one in devices for name in device_names(one)}

    def called(self, words: str, memory_gb: float | None) -> list[DeviceInfo]:
        """Every device whose name has all these words, such as `A100`, with about that memory if it is given."""
        wanted = set(_words(words)) - {self.vendor}
        found = [one for one, _ in self.devices if any(wanted <= set(_words(name)) for name in device_names(one))]
        return [one for one in found if memory_gb is None or about(one.memory_bytes, memory_gb)] if wanted else []

    def peak(self, device: DeviceInfo, dtype: Precision) -> PeakFlops | None:
        """What the vendor publishes for the device; None where it publishes nothing."""
        found = self.plugins.peak(device.model, dtype)
        return None if isinstance(found, str) else found

    def may_have_peak(self, model: str, dtype: Precision) -> bool:
        """Whether the vendor's plugin gives a peak for a device under this name; true where it cannot be asked."""
        try:
            return self.plugins.peak(model, dtype) is not None
        except LlmperfError:  # a name of somebody's own making may be more than a plugin can take
            return True

    def precisions(self, device: DeviceInfo) -> tuple[str, ...]:
        """What the device offers."""
        return next((offers.precisions for one, offers in self.devices if one == device), ())


def about(memory_bytes: int | None, printed_gb: float) -> bool:
    """Whether a device of so many bytes may be called one of so many GB, binary or decimal; true where unknown."""
    if memory_bytes is None:
        return True
    sizes = (memory_bytes / 2**30, memory_bytes / 1e9)
    return min(sizes) * (1 - MEMORY_SLACK) <= printed_gb <= max(sizes) * (1 + MEMORY_SLACK)


def _words(name: str) -> list[str]:
    """`NVIDIA A100-SXM4-40GB` is nvidia, a100, sxm4, 40gb; other scripts than Latin are left out."""
    return re.findall(r"[a-z0-9.+]+", name.lower())


@cache
def installed() -> tuple[Found, ...]:
    """Every plugin of this environment; looking takes time, and is done once for many documents."""
    return tuple(discover())


@cache
def installed_vendors() -> frozenset[str]:
    """Names of the vendor plugins that are installed."""
    return frozenset(names("vendor", installed()))


def vendor_catalogue(vendor: str) -> VendorCatalogue | None:
    """What the vendor's plugin publishes; None where it is not installed, broken, or publishes nothing."""
    found = _asked(vendor)
    return None if isinstance(found, str) else found


def vendor_trouble(vendor: str) -> str | None:
    """Why an installed vendor plugin cannot be asked what it publishes, in one line; None where it can."""
    found = _asked(vendor)
    return found if isinstance(found, str) else None


@cache
def _asked(vendor: str) -> VendorCatalogue | str | None:
    if vendor not in installed_vendors():
        return None
    try:
        found = find("vendor", vendor, installed())
        plugins = Plugins([found])
        probes = catalogue(found, plugins)
    except LlmperfError as error:
        return str(error)
    devices = tuple((device, probe.offers) for probe in probes for device in probe.devices)
    return VendorCatalogue(vendor, devices, plugins) if devices else None


def other_owners(model: str, vendor: str) -> Iterator[str]:
    """Installed vendors, other than the given one, that publish a device of exactly that name."""
    for name in sorted(installed_vendors()):
        found = None if name == vendor else vendor_catalogue(name)
        if found is not None and found.exact(model) is not None:
            yield name


def vendors_calling(words: str, vendor: str) -> Iterator[str]:
    """Installed vendors, other than the given one, that publish a device whose name has all these words."""
    for name in sorted(installed_vendors()):
        found = None if name == vendor else vendor_catalogue(name)
        if found is not None and found.called(words, None):
            yield name
