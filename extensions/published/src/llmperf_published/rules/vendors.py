"""The vendor of a row's device: the document's, or in a comparison of vendors that of the row alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from llmperf.validation import installed_vendors, vendor_catalogue

from llmperf_published.reading.machine import in_place_of_a_device
from llmperf_published.reading.names import devices_called, vendors_calling, vendors_named
from llmperf_published.types.document import Published, PublishedRow
from llmperf_published.types.row import PublishedHardware

NAME = re.compile(
    r"(?<![A-Za-z0-9.-])((?:[A-Za-z]{1,4}-)?[A-Za-z]{1,3}-?\d{2,4}[A-Za-z]{0,2}|9\d0[A-C]\d?)(?![A-Za-z0-9.])"
)
"""Names of accelerators in a heading: A100, H800, R300, MI300X, BI-V150, 910B."""
_Names = tuple[str | None, str | None, str | None]
_recent: list[tuple[Published, tuple[bool, Mapping[_Names, str | None]]]] = []
"""Documents that were asked about last: what follows from all of their rows is found once."""


def vendor_of(published: Published, row: PublishedRow) -> str | None:
    """The vendor of the row's device; None where it is unknown, as for a device that the row alone names."""
    return _vendors(published)[1].get(_names(row.hardware))


def checking_vendor(published: Published, row: PublishedRow) -> str | None:
    """The vendor whose published devices a row is checked against: that of the row alone in a comparison."""
    return vendor_of(published, row) if is_comparison(published) else published.vendor


def is_comparison(published: Published) -> bool:
    """Check whether rows name devices of several vendors, and the title does not say whose document it is."""
    return _vendors(published)[0]


def vendors(published: Published) -> list[str]:
    """The vendors of the document and, in a comparison, of its rows."""
    if published.vendor is not None and not is_comparison(published):
        return [published.vendor]
    return sorted({name for name in _vendors(published)[1].values() if name is not None})


def _vendors(published: Published) -> tuple[bool, Mapping[_Names, str | None]]:
    """A comparison of vendors or not, and the vendor of each machine that rows name."""
    if (known := next((found for document, found in _recent if document is published), None)) is not None:
        return known
    machines = {_names(row.hardware): row.hardware for row in published.rows}
    named = {names: _named(where, published.vendor) for names, where in machines.items()}
    several = len(set(named.values()) - {None}) > 1
    title, whose = published.title, {published.vendor}  # `NVIDIA results`, but neither `A100` nor `NVIDIA and MI300X`
    others = {name for device in NAME.findall(title) for name in _publishing(device, published.vendor)}
    titled = all(set(vendors_named(text)) == whose for text in (title, NAME.sub(" ", title))) and others <= whose
    comparison = several and not titled
    of_rows: dict[_Names, str | None] = {}
    if comparison or published.vendor is not None:
        own = None if comparison else published.vendor
        of_rows = {names: named[names] or _unnamed(where, own, published) for names, where in machines.items()}
    _recent[:] = [(published, (comparison, of_rows)), *_recent[:3]]
    return comparison, of_rows


def _names(where: PublishedHardware) -> _Names:
    return where.configuration, where.device, where.device_model


def _named(where: PublishedHardware, vendor: str | None) -> str | None:
    """The one vendor that a row's own cell names, or that publishes the device of the cell; None if there is no one."""
    named = vendors_named(where.configuration or "") or vendors_named(where.device or "")
    if not named and where.device:
        named = _publishing(where.device, vendor)
    return named[0] if len(named) == 1 else None


@cache
def _publishing(device: str, vendor: str | None) -> list[str]:
    own = vendor_catalogue(vendor) if vendor else None
    return [vendor] if vendor and own and devices_called(own, device) else list(vendors_calling(device, ""))


def _unnamed(where: PublishedHardware, vendor: str | None, published: Published) -> str | None:
    """The vendor of a row whose cell names none: the document's, unless the row is on a device that is not known."""
    if where.device_model is not None:  # the environment's accelerator
        named = vendors_named(where.device_model)
        return named[0] if len(named) == 1 else published.vendor
    if not (where.device or in_place_of_a_device(where.configuration or "")):
        return vendor
    return None if vendor in installed_vendors() else vendor  # an installed plugin would know its vendor's device
