"""Which of its vendor's devices a published row may have been run on, and in which dtypes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from llmperf.types.devices import DeviceInfo, Dtype
from llmperf.validation import VendorCatalogue, vendor_catalogue

from llmperf_published.reading.form_factors import form_factor, without_form_factor
from llmperf_published.reading.settings import precisions_in
from llmperf_published.types.document import Published, PublishedRow

HALF: tuple[Dtype, ...] = ("bf16", "fp16")


@dataclass(frozen=True, slots=True)
class Machine:
    """The devices that a row may have been run on, of which there are several where it names only a family."""

    catalogue: VendorCatalogue
    devices: Sequence[DeviceInfo]

    def peaks(self, dtypes: Sequence[Dtype]) -> list[float]:
        """FLOP/s, without those that are unknown."""
        found = [self.catalogue.peak(device, dtype) for device in self.devices for dtype in dtypes]
        return sorted({one.flops_per_second for one in found if one is not None})


def machine_of(published: Published, row: PublishedRow) -> Machine | None:
    """None where the vendor's plugin is not installed or does not publish the device."""
    catalogue = vendor_catalogue(published.vendor) if published.vendor else None
    if catalogue is None:
        return None
    found = devices_of(catalogue, row)
    return Machine(catalogue, found) if found else None


def devices_of(catalogue: VendorCatalogue, row: PublishedRow) -> list[DeviceInfo]:
    """The device by its exact name, else every device of the family that the row names, with its memory if it says."""
    where = row.hardware
    exact = catalogue.exact(where.device_model) if where.device_model else None
    name, memory = where.device or where.device_model or "", where.device_memory
    found = [exact] if exact else catalogue.called(name, memory)
    found = found or (_with_memory_in_name(catalogue, name) if memory is None else [])
    if not found and (family := without_form_factor(name)) != name:  # a family whose names have no form factors
        known = any(form_factor(device.model) for device in catalogue.called(family, None))
        found = [] if known else catalogue.called(family, memory)
    return found


def _with_memory_in_name(catalogue: VendorCatalogue, name: str) -> list[DeviceInfo]:
    """`AMD Instinct MI300X 192GB`, where the vendor's name for it has no memory."""
    size = re.search(r"[\s-](\d{1,4})\s?GB?$", name[:200], re.IGNORECASE)
    return catalogue.called(name[: size.start()], int(size[1])) if size else []


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


def in_few_bits(row: PublishedRow) -> bool:
    """Whether a row names a dtype of 8 bits or fewer, alone or beside another."""
    return row.precision is None and None in precisions_in(row.precision_text)


def rows_on_known_devices(published: Published) -> Iterator[tuple[int, PublishedRow, Machine]]:
    """Index, row and devices of each row whose devices are known."""
    for index, row in enumerate(published.rows):
        machine = machine_of(published, row)
        if machine is not None:
            yield index, row, machine
