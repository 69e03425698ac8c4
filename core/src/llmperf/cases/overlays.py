"""Tuning overlays: what a vendor or framework plugin recommends for a case on its device."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from llmperf.cases.library import Library, library
from llmperf.cases.settings import Setting, from_tables
from llmperf.errors import UserError, unknown
from llmperf.files.user_files import read_toml
from llmperf.plugins.loading import Plugins

TABLES = ("when", "contract", "tuning", "framework", "data")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of a run that conditions in `[when]` are compared with."""

    case: str
    """Name of the case."""
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


def matching(shelf: Library, actual: Facts) -> list[Setting]:
    """The settings of every overlay whose `[when]` holds, in the order of file names."""
    facts = {name: str(value) for name, value in asdict(actual).items()}
    settings: list[Setting] = []
    for path, tables in shelf.overlays():
        if all(facts[key] in _wanted(value) for key, value in _conditions(path, tables).items()):
            changes = {key: value for key, value in tables.items() if key != "when"}
            settings += from_tables(changes, f"overlay {path.name}")
    return settings


def from_file(path: Path, actual: Facts) -> list[Setting]:
    """The settings of an overlay file that the user names; UserError if it cannot be read or is for another run."""
    tables, facts = read_toml(path), asdict(actual)
    for key, value in _conditions(path, tables).items():
        if str(facts[key]) not in _wanted(value):
            expected = " or ".join(_wanted(value))
            raise UserError(f"{path}: when.{key}: the overlay is for {expected}, found {str(facts[key])!r}")
    changes = {key: value for key, value in tables.items() if key != "when"}
    return from_tables(changes, f"overlay {path.name}")


def _conditions(path: Path, tables: dict[str, Any]) -> dict[str, Any]:
    for key in tables:
        if key not in TABLES:
            raise unknown(str(path), "table", key, TABLES)
    when = tables.get("when")
    if not isinstance(when, dict) or not when:
        raise UserError(f"{path}: when: expected a table with one or more of {', '.join(CONDITIONS)}, found {when!r}")
    for key in when:
        if key not in CONDITIONS:
            raise unknown(f"{path}: when", "condition", key, CONDITIONS)
    return when


def _wanted(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def check_readable(plugins: Plugins) -> None:
    """UserError with the first model, case or overlay of the loaded plugins that cannot be read."""
    shelf = library(plugins)
    matching(shelf, Facts(case="", device="", framework=""))  # reads every overlay's conditions
    for path, tables in shelf.overlays():
        from_tables({key: value for key, value in tables.items() if key != "when"}, str(path))
    for name in shelf.paths("models"):
        shelf.model(name)
    for name in shelf.paths("cases"):
        shelf.model(shelf.case(name).contract.model, f"case {name}")
