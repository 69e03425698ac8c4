"""The files of `llmperf import --peaks` and `--model`, checked against what the installed packages have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.errors import UserError
from llmperf.validation import installed_vendors, vendor_catalogue
from llmperf.vendorkit import PeakEntry, PeakTable

from llmperf_published.reading.machine import in_place_of_a_device
from llmperf_published.types.document import PublishedHardware
from llmperf_published.types.own import OwnDevice, OwnFacts, OwnModel

if TYPE_CHECKING:
    from llmperf import Library


def own_facts(peaks: Path | None, models: Sequence[Path], library: Library) -> OwnFacts | None:
    """What the files hold; None without files.

    UserError for a faulty entry, and for a device or a model that an installed package has: its figures are used.
    """
    devices = () if peaks is None else tuple(_devices(peaks))
    own_models = tuple(OwnModel(file=path.name, model=library.model(_toml(path), "--model")) for path in models)
    names = [own.model.name for own in own_models]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"--model: expected each model once, found {repeated!r} twice")
    return OwnFacts(devices=devices, models=own_models) if devices or own_models else None


def _toml(path: Path) -> str:
    if path.suffix != ".toml":
        raise UserError(f"--model: expected a model file that ends in .toml, found {path}")
    return str(path)


def _devices(path: Path) -> Iterable[OwnDevice]:
    table = PeakTable.read(path, "")
    if table.problems:
        raise UserError(table.problems[0].removesuffix("; the entry is skipped"))
    if not table.entries:
        raise UserError(f"{path}: expected [[device]] tables, found none")
    for place, entry in enumerate(table.entries):
        for vendor in sorted(installed_vendors()):
            known = vendor_catalogue(vendor)
            if known is not None and (name := next(filter(known.exact, names_of(entry)), None)):
                where = f"{path}: device[{place}] ({entry.model})"
                found = f"found {name!r}, whose peaks the plugin of vendor {vendor} publishes"
                raise UserError(f"{where}: expected a device that no installed package has, {found}")
        yield OwnDevice(file=path.name, entry=entry)


def names_of(entry: PeakEntry) -> tuple[str, ...]:
    """The model and its aliases."""
    return (entry.model, *entry.aliases)


def spelt(name: str) -> str:
    """A device's name as it is compared: in lower case, without spaces, dashes and underscores."""
    return re.sub(r"[\s_-]+", "", name).lower()


def on_own_device(where: PublishedHardware, cells: Iterable[str], own: OwnFacts) -> PublishedHardware:
    """The machine with the user's device, where a cell has exactly one of its names beside counts."""
    models = {spelt(name): device.entry.model for device in own.devices for name in names_of(device.entry)}
    texts = [where.device_model or "", where.device or "", *map(in_place_of_a_device, cells)]
    found = next((models[key] for text in texts if (key := spelt(text)) in models), None)
    return where if found is None else replace(where, device=found)
