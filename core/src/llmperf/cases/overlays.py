"""Tuning overlays: what a vendor or framework plugin recommends for a case on its device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmperf.cases.library import Library, library, read_named
from llmperf.cases.settings import Setting, from_tables
from llmperf.errors import UserError, unknown
from llmperf.files.user_files import read_toml
from llmperf.plugins.loading import Plugins
from llmperf.types.models import Model

TABLES = ("when", "tuning", "framework", "data")
SMALL = Path(__file__).parents[1] / "data" / "small_contracts.toml"
"""Contracts of the core's cases on a small model and a CPU. These are no overlays: overlays never change a contract."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of a run that conditions in `[when]` are compared with."""

    case: str
    """Name of the case. An overlay with this condition and without `model` is for the case's own model."""
    device: str
    """Model of the devices."""
    framework: str
    """Name of the framework plugin."""
    model: str = ""
    """Name of the model, as the command line asks or the case says."""
    kind: str = ""
    """`accelerator` or `cpu`."""
    ranks: int | None = None
    """Ranks on all nodes: as the user asks, otherwise as the case says and the machine has."""


CONDITIONS = tuple(Facts.__dataclass_fields__)


def overlay_settings(shelf: Library, actual: Facts, own_model: str, files: Iterable[Path] = ()) -> list[Setting]:
    """The settings of a run before those of the command line; `own_model` is the case's.

    First the contract of a case that the core ships, on a small model and a CPU. Then every overlay on the shelf whose
    `[when]` holds, in the order of file names, and then the files that the user names.
    """
    settings: list[Setting] = []
    if actual.kind == "cpu" and actual.model != own_model:
        for entry in read_toml(SMALL)["small"]:
            if not _unmet(entry["when"], actual):
                settings += from_tables({"contract": entry["contract"]}, f"small model, {SMALL.name}")
    for path, tables in shelf.overlays():
        if not _unmet(_conditions(path, tables, own_model), actual):
            settings += _settings(path, tables)
    for path in files:
        tables = read_toml(path)
        for key, wanted in _unmet(_conditions(path, tables, own_model), actual).items():
            found = str(getattr(actual, key))
            raise UserError(f"{path}: when.{key}: the overlay is for {' or '.join(wanted)}, found {found!r}")
        settings += _settings(path, tables)
    return settings


def on_other_devices(shelf: Library, actual: Facts, own_model: str) -> list[tuple[list[str], list[Setting]]]:
    """Devices and settings of each overlay that holds for the same run on devices other than this one."""
    elsewhere = []
    for path, tables in shelf.overlays():
        unmet = _unmet(_conditions(path, tables, own_model), actual)
        if list(unmet) == ["device"]:
            elsewhere.append((unmet["device"], _settings(path, tables)))
    return elsewhere


def _unmet(conditions: dict[str, Any], actual: Facts) -> dict[str, list[str]]:
    """Each condition that does not hold, with the values it asks for."""
    asked = {key: value if isinstance(value, list) else [value] for key, value in conditions.items()}
    wanted = {key: [str(item) for item in items] for key, items in asked.items()}
    return {key: items for key, items in wanted.items() if str(getattr(actual, key)) not in items}


def _settings(path: Path, tables: dict[str, Any]) -> list[Setting]:
    settings = from_tables({key: value for key, value in tables.items() if key != "when"}, f"overlay {path.name}")
    for setting in settings:
        if setting.path == "tuning.gradient_accumulation":
            raise _contract_error(path, setting.path, "global_batch would follow from it")
    return settings


def _contract_error(path: Path, found: str, reason: str) -> UserError:
    expected = f"expected {', '.join(TABLES[1:])}, found {found}: {reason}"
    return UserError(f"{path}: an overlay never changes the contract: {expected}; write a case of its own")


def _conditions(path: Path, tables: dict[str, Any], own_model: str) -> dict[str, Any]:
    """The conditions of an overlay, with the case's own model where it names a case and no model."""
    if "contract" in tables:
        raise _contract_error(path, "contract", "it is what a result measures")
    for key in tables:
        if key not in TABLES:
            raise unknown(str(path), "table", key, TABLES)
    when = tables.get("when")
    if not isinstance(when, dict) or not when:
        raise UserError(f"{path}: when: expected a table with one or more of {', '.join(CONDITIONS)}, found {when!r}")
    for key in when:
        if key not in CONDITIONS:
            raise unknown(f"{path}: when", "condition", key, CONDITIONS)
    return {**when, "model": own_model} if "case" in when and "model" not in when else when


def check_readable(plugins: Plugins) -> None:
    """UserError with the first model, case or overlay of the loaded plugins that cannot be read."""
    shelf = library(plugins)
    for path, tables in shelf.overlays():
        _conditions(path, tables, "")
        _settings(path, tables)
    for path in shelf.paths("models").values():
        read_named(path, Model)
    for name in shelf.paths("cases"):
        shelf.model(shelf.case(name).contract.model, f"case {name}")
