"""The models, cases and tuning overlays that the core and the installed plugins ship."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from llmperf.cases.fields import check_table, with_unset
from llmperf.cases.model_facts import check_model
from llmperf.errors import PluginError, UserError, unknown
from llmperf.files.json_files import convert, read_bytes
from llmperf.files.user_files import MAX_TOML_BYTES, parse_toml, read_toml
from llmperf.hookspecs import hookimpl
from llmperf.plugins.discovery import discover
from llmperf.plugins.loading import Plugins
from llmperf.types.models import Model
from llmperf.types.spec import Case

T = TypeVar("T", Case, Model)
Read = TypeVar("Read")
Shelf = Literal["models", "cases", "overlays"]
SHELVES: tuple[Shelf, ...] = ("models", "cases", "overlays")


@dataclass
class Library:
    """Files by name; a name in two folders is an error that names both files."""

    folders: list[tuple[str, Path]] = field(default_factory=list)
    """The owner and the path of each folder."""
    left_out: list[str] = field(default_factory=list)
    """One line for each plugin that failed, and for each file that cannot be read or used."""
    aside: dict[Path, str] = field(default_factory=dict)
    """Folders that are left out, with the reason."""

    def paths(self, shelf: Shelf) -> dict[str, Path]:
        """Name to file for every TOML on a shelf."""
        found: dict[str, Path] = {}
        for owner, folder in self.folders:
            for path in sorted((folder / shelf).glob("*.toml")):
                if path.stem in found:
                    raise UserError(f"{shelf[:-1]} {path.stem!r} is in {found[path.stem]} and in {path} ({owner})")
                found[path.stem] = path
        return found

    def model(self, name: str, where: str = "model") -> Model:
        """A model by name, or from a `.toml` file, which may not have a shipped model's name; else UserError."""
        paths = self.paths("models")
        if name.endswith(".toml"):
            own = Path(name)
            if not os.path.exists(own):  # a case's model is relative to the working folder, not to the case's file
                relative = "" if own.is_absolute() else f" ({name}, relative to the working folder)"
                raise UserError(f"{where}: expected a model file, found none at {own.absolute()}{relative}")
            if own.stem in whole_library().paths("models"):
                raise UserError(f"{where}: {own}: {own.stem!r} is the name of a shipped model; rename the file")
            return read_named(own, Model)
        if name not in paths:
            raise unknown(where, "model", name, paths, listing="llmperf models")
        return read_named(paths[name], Model)

    def case(self, name: str) -> Case:
        """A case by name, or from the `.toml` file at a path; UserError with the closest name if it is unknown."""
        if name.endswith(".toml"):
            return read_named(Path(name), Case)
        paths = self.paths("cases")
        if name not in paths:
            if name in self.paths("models"):
                raise UserError(f"unknown case {name!r}: that is a model; choose a case, and add --set model={name}")
            raise unknown("", "case", name, paths)
        return read_named(paths[name], Case)

    def readable(self, shelf: Shelf, read: Callable[[str], Read]) -> list[Read]:
        """All documents of a shelf that can be read; the others are listed in `left_out`."""
        documents = []
        for name in self.paths(shelf):
            try:
                documents.append(read(name))
            except UserError as error:
                self.left_out.append(str(error))
        return documents

    def overlays(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Every tuning overlay as raw tables."""
        for path in self.paths("overlays").values():
            yield path, read_toml(path)


class GivenModel(Library):
    """A library of one model, such as a submission states it."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._model = model

    def model(self, name: str, where: str = "model") -> Model:
        """The model of this name; UserError for another name."""
        if name != self._model.name:
            raise UserError(f"{where}: expected {self._model.name!r}, found {name!r}")
        return self._model


_decoded: dict[tuple[Path, type, bytes], Any] = {}
"""Models and cases by their file, their kind and the file's content."""


def read_named(path: Path, kind: type[T]) -> T:
    """A model or a case from its file, decoded once in a process; UserError for the first invalid key or value."""
    data = read_bytes(path, limit=MAX_TOML_BYTES)
    if (path, kind, data) not in _decoded:
        read = from_table({"name": path.stem, **parse_toml(data, str(path))}, kind, str(path))
        if read.name != path.stem:
            raise UserError(f"{path}: name: expected {path.stem!r}, as the file is called; found {read.name!r}")
        _decoded[path, kind, data] = read
    made: T = _decoded[path, kind, data]
    return made


def from_table(table: Mapping[str, Any], kind: type[T], where: str) -> T:
    """A model or a case from the tables of its file; UserError for the first invalid key or value."""
    check_table(table, kind, where)
    made = convert(with_unset(table, kind), kind, where)
    if isinstance(made, Model):
        check_model(made, where)
    return made


def library(*plugins: Plugins) -> Library:
    """Models and cases that the core and the given loaded plugins ship."""
    folders: dict[Path, str] = {}
    for loaded in plugins or (Plugins(),):
        for owner, path in loaded.collect_items("llmperf_resources"):
            if not isinstance(path, (str, Path)):
                raise PluginError(f"{loaded.who(owner)}: expected folders of llmperf_resources, found {path!r}")
            folders[Path(path)] = owner
    return Library([(owner, path) for path, owner in folders.items()])


def whole_library() -> Library:
    """Models and cases of the core and all usable plugins; plugins whose file names are taken are left out."""
    whole = library()
    for found in discover():
        try:
            plugins = Plugins([found])
        except PluginError:  # `llmperf plugins` gives the reason
            continue
        try:
            known = {path for _, path in whole.folders}
            folders = [(owner, path) for owner, path in library(plugins).folders if path not in known]
        except PluginError as error:
            whole.left_out.append(str(error))
            continue
        try:
            for shelf in SHELVES:
                Library([*whole.folders, *folders]).paths(shelf)
        except UserError as error:
            whole.left_out.append(str(error))
            whole.aside |= {path: str(error) for _, path in folders}
        else:
            whole.folders += folders
    return whole


def whole_library_for(shelf: Shelf, name: str) -> Library:
    """The whole library, for one named document; UserError if the document is in a folder that is left out."""
    whole = whole_library()
    for folder, reason in whole.aside.items():
        if name in Library([("", folder)]).paths(shelf):
            raise UserError(f"{shelf[:-1]} {name!r} is in {folder}, which is left out: {reason}")
    return whole


def library_with_case(name: str, *plugins: Plugins) -> Library:
    """A library that has the case: of the core and the given plugins if they have it, otherwise of all plugins."""
    near = library(Plugins(), *plugins)
    return near if name.endswith(".toml") or name in near.paths("cases") else whole_library_for("cases", name)


def read_case(name: str) -> Case:
    """A case by its name or the path of its file; UserError with the closest name, or for an invalid file."""
    return library_with_case(name).case(name)


@hookimpl
def llmperf_resources() -> Iterable[Path]:
    """The core's own models, cases and overlays."""
    return [Path(__file__).parents[1] / "data"]
