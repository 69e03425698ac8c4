"""Facts that `llmperf import` adds to documents: peaks and models from files, and statements; checked by plugins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from llmperf.errors import UserError, unknown
from llmperf.types import Dtype
from llmperf.validation import installed_vendors, vendor_catalogue
from llmperf_vendorkit import PeakEntry, PeakTable

from llmperf_published.reading.library_match import Known
from llmperf_published.reading.machine import in_place_of_a_device
from llmperf_published.reading.names import devices_called
from llmperf_published.reading.numbers import length
from llmperf_published.reading.profile import STATEMENTS, Profile
from llmperf_published.reading.vocabulary import squeezed
from llmperf_published.types.row import OwnDevice, OwnFacts, OwnModel, PublishedHardware, Stated, Statements

if TYPE_CHECKING:
    from llmperf import Library


def own_facts(
    peaks: Path | None,
    models: Sequence[str],
    library: Library,
    statements: Mapping[str, str | None] | None = None,
    profile: Profile | None = None,
) -> OwnFacts | None:
    """Facts from files and options; None without any.

    `models` are files, and at most one name of a model of the library; `statements` are the values of options such as
    --vendor and --device, which come before those of the profile. UserError for a faulty entry, for a device or a model
    in a file that an installed package has, as its figures are used, and for a statement that names nothing.
    """
    devices = () if peaks is None else tuple(_devices(peaks))
    files = [Path(model) for model in models if model.endswith(".toml") or Path(model).is_file()]
    named = [model for model in models if Path(model) not in files]
    if len(named) > 1:
        raise UserError(f"--model: expected one name of a model beside files, found {named[0]!r} and {named[1]!r}")
    if odd := next((path for path in files if path.suffix != ".toml"), None):
        raise UserError(f"--model: expected a model file that ends in .toml, found {odd}")
    origins = dict.fromkeys(files, "--model")
    if profile is not None:
        origins |= dict.fromkeys(profile.models, str(profile.path))
        if absent := next((path for path in profile.models if not path.is_file()), None):
            raise UserError(f"{profile.path}: expected a model file beside it, found no {absent.name}")
    own_models = tuple(OwnModel(file=path.name, model=library.model(str(path), of)) for path, of in origins.items())
    names = [own.model.name for own in own_models]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"--model: expected each model once, found {repeated!r} twice")
    options = {**(statements or {}), "model": named[0] if named else None}
    said = {name: value for name in STATEMENTS if (value := options.get(name))}
    stated = None
    if said or profile is not None:
        constants = {name: text for name, text in (profile.constants if profile else {}).items() if name not in said}
        vendor = said.get("vendor") or constants.get("vendor")
        checked = partial(_checked, vendor=vendor, library=library, models=names, own=devices)
        by = ["by " + " ".join(f"--{name.replace('_', '-')} {value}" for name, value in said.items())] * bool(said)
        rows = {}
        if profile is not None:
            by.insert(0, f"in {profile.path.name}")
            for text, values in profile.rows.items():
                rows[text] = Statements(**checked(values, f"{profile.path}: rows.{text}."))
        own = checked(constants, f"{profile.path}: constants." if profile else "")
        stated = Stated(by="the importer, " + " and ".join(by), vendor=vendor, rows=rows, **own, **checked(said, "--"))
    return OwnFacts(devices=devices, models=own_models, stated=stated) if devices or own_models or stated else None


def _checked(
    said: Mapping[str, Any],
    prefix: str,
    vendor: str | None,
    library: Library,
    models: Sequence[str],
    own: Sequence[OwnDevice],
) -> dict[str, Any]:
    """Statements as fields of `Statements`; `models` and `own` are in the importer's files."""
    where = {name: prefix + (name.replace("_", "-") if prefix == "--" else name) for name in STATEMENTS}
    found: dict[str, Any] = {name: said[name] for name in ("device", "precision", "lora") if name in said}
    if "vendor" in said and vendor not in installed_vendors():
        raise unknown(where["vendor"], "vendor", str(vendor), installed_vendors())
    if "precision" in said and said["precision"] not in get_args(Dtype):
        raise unknown(where["precision"], "precision", said["precision"], get_args(Dtype))
    if (device := said.get("device")) is not None:
        vendors = [vendor] if vendor else sorted(installed_vendors())
        catalogues = [catalogue for name in vendors if (catalogue := vendor_catalogue(name)) is not None]
        added = {squeezed(name) for entry in own for name in names_of(entry.entry)}
        if squeezed(device) not in added and not any(
            one.exact(device) or devices_called(one, device) for one in catalogues
        ):
            known = [info.model.partition(" ")[2] or info.model for one in catalogues for info, _ in one.devices]
            raise unknown(where["device"], f"device{f' of {vendor}' if vendor else ''}", device, known)
    if (text := said.get("devices")) is not None:
        if (match := re.fullmatch(r"(?:([1-9]\d{0,4})x)?([1-9]\d{0,5})", text)) is None:
            form = "expected devices in all or nodes x devices, such as 8 or 2x8"
            raise UserError(f"{where['devices']}: {form}, found {text!r}")
        found |= {"devices": int(match[2])} if match[1] is None else {
            "nodes": int(match[1]), "devices_per_node": int(match[2])
        }  # fmt: skip
    if (text := said.get("sequence_length")) is not None:
        if (found_length := length(text)) is None:
            raise UserError(f"{where['sequence_length']}: expected tokens such as 4096 or 4k, found {text!r}")
        found["seq_len"] = found_length
    if (name := said.get("model", "").removesuffix(".toml")) and name not in models:
        name = library.model(name, where["model"]).name
    if name:
        found["model"] = name
    return found


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


def stated_of(known: Known, texts: set[str]) -> tuple[Statements, bool]:
    """What the importer states of a row with these cells and heading; whether its model is stated of such rows alone.

    A key `A | B` is of rows with both texts, and comes before `A`.
    """
    stated = known.stated or Stated(by="")
    keys = [key for key in stated.rows if set(key.split(" | ")) <= texts]
    kinds = [stated.rows[key] for key in sorted(keys, key=lambda key: -key.count(" | "))]
    counts = ("nodes", "devices_per_node", "devices")
    counted = next((kind for kind in (*kinds, stated) if any(getattr(kind, name) for name in counts)), stated)
    values = {
        field.name: next(filter(None, (getattr(kind, field.name) for kind in (*kinds, stated))), None)
        for field in fields(Statements)
    }
    values |= {name: getattr(counted, name) for name in counts}
    return Statements(**values), any(kind.model for kind in kinds)


def on_own_device(where: PublishedHardware, cells: Iterable[str], own: OwnFacts) -> PublishedHardware:
    """The machine with the user's device, where a cell has exactly one of its names beside counts."""
    models = {squeezed(name): device.entry.model for device in own.devices for name in names_of(device.entry)}
    texts = [where.device_model or "", where.device or "", *map(in_place_of_a_device, cells)]
    found = next((models[key] for text in texts if (key := squeezed(text)) in models), None)
    return where if found is None else replace(where, device=found)
