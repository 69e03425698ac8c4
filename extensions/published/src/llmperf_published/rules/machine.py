"""Devices of the vendor that a published row may have been run on, and their dtypes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from llmperf.types.devices import DeviceInfo, Dtype, PeakFlops
from llmperf.validation import VendorCatalogue, vendor_catalogue

from llmperf_published.reading.names import devices_called, form_factor, without_form_factor
from llmperf_published.reading.settings import precisions_in
from llmperf_published.rules.vendors import checking_vendor
from llmperf_published.types.document import Published, PublishedRow
from llmperf_published.types.row import OwnDevice

HALF: tuple[Dtype, ...] = ("bf16", "fp16")


@dataclass(frozen=True, slots=True)
class OwnCatalogue:
    """The one device of the importer that a row was run on, as `VendorCatalogue` has those of a vendor."""

    device: OwnDevice

    @property
    def devices(self) -> tuple[tuple[DeviceInfo, None]]:
        """The device, without offers."""
        entry = self.device.entry
        memory = None if entry.memory_gib is None else round(entry.memory_gib * 2**30)
        return ((DeviceInfo(index=0, model=entry.model, memory_bytes=memory, details=entry.details), None),)

    def peak(self, device: DeviceInfo, dtype: Dtype) -> PeakFlops | None:
        """The importer's peak of the device; None where their file gives none."""
        entry = self.device.entry
        tflops = entry.dense_tflops.get(dtype) if device.model == entry.model else None
        if tflops is None:
            return None
        rate = float(round(tflops * 1e12))
        told = {"source": entry.source, "date": entry.date, "confidence": entry.confidence}
        return PeakFlops(device_model=entry.model, dtype=dtype, flops_per_second=rate, **told)  # type: ignore[arg-type]

    def precisions(self, _: DeviceInfo) -> tuple[str, ...]:
        """Dtypes that the device computes in; none where the importer's file does not list them."""
        return self.device.entry.precisions


@dataclass(frozen=True, slots=True)
class Machine:
    """The devices that a row may have been run on, of which there are several where it names only a family."""

    catalogue: VendorCatalogue | OwnCatalogue
    devices: Sequence[DeviceInfo]

    @property
    def own_file(self) -> str | None:
        """The file in which the importer gave the device; None where a vendor's plugin publishes it."""
        return self.catalogue.device.file if isinstance(self.catalogue, OwnCatalogue) else None

    def peaks(self, dtypes: Sequence[Dtype]) -> list[float]:
        """FLOP/s, without those that are unknown."""
        found = [self.catalogue.peak(device, dtype) for device in self.devices for dtype in dtypes]
        return sorted({one.flops_per_second for one in found if one is not None})


def machine_of(published: Published, row: PublishedRow) -> Machine | None:
    """Device facts of the vendor's plugin, otherwise of the importer; None where neither has the device."""
    vendor = checking_vendor(published, row)
    catalogue = vendor_catalogue(vendor) if vendor else None
    found = devices_of(catalogue, row) if catalogue is not None else []
    if catalogue is not None and found:
        return Machine(catalogue, found)
    for device in published.own.devices if published.own else ():
        if row.hardware.device == device.entry.model:
            own = OwnCatalogue(device)
            return Machine(own, [own.devices[0][0]])
    return None


def devices_of(catalogue: VendorCatalogue, row: PublishedRow) -> list[DeviceInfo]:
    """The device by its exact name, else every device of the family that the row names, with its memory if it says."""
    where = row.hardware
    exact = catalogue.exact(where.device_model) if where.device_model else None
    name, memory = where.device or where.device_model or "", where.device_memory
    found = [exact] if exact else devices_called(catalogue, name, memory)
    size = re.search(r"[\s-](\d{1,4})\s?GB?$", name[:200], re.IGNORECASE) if memory is None and not found else None
    if size is not None:  # `AMD Instinct MI300X 192GB`, where the vendor's name for it has no memory
        found = devices_called(catalogue, name[: size.start()], int(size[1]))
    if not found and (family := without_form_factor(name)) != name:  # a family whose names have no form factors
        known = any(form_factor(device.model) for device in devices_called(catalogue, family))
        found = [] if known else devices_called(catalogue, family, memory)
    return found


def dtypes_of(row: PublishedRow) -> tuple[Dtype, ...]:
    """Those a row may mean: `amp` is either of 16 bits, and TF32 is often called fp32."""
    if row.precision:
        return ("fp32", "tf32") if row.precision == "fp32" else (row.precision,)
    named = precisions_in(row.precision_text)
    if named:
        dtypes = [one for one in get_args(Dtype) if one in named or (one == "tf32" and "fp32" in named)]
        return () if None in named else tuple(dtypes)
    words = (row.precision_text or "").lower()
    return HALF if "amp" in words or "mixed" in words or "混合" in words else ()
