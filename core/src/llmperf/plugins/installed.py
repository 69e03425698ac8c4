"""Metadata of installed distributions, from the folders on `sys.path`; `importlib.metadata` is slow to import."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

ENDINGS = (".dist-info", ".egg-info")
HEAD_FILES = ("METADATA", "PKG-INFO")
FIELDS = ("Name", "Version", "Requires-Dist")
PROJECT = b"llmperf."
"""Beginning of the names of entry-point groups that are read."""
FOLDER = "LLMPERF_PLUGINS_DIR"
"""Environment variable with a folder of plugins that are not packages: `vendor_NAME.py`, `framework_NAME.py`, ..."""
DISABLE = "LLMPERF_DISABLE"
"""Environment variable with names of plugins and packages, joined by commas, that are treated as not installed."""
PLUGIN_FILE = re.compile(r"(vendor|framework|extension)_([a-z][a-z0-9_]*)\.py")
PLUGIN_GROUP = re.compile(r"llmperf\.(vendor|framework|extension)\.v[0-9]+")


class EntryPoint(NamedTuple):
    """One line of `entry_points.txt`: `name = module:attribute` below `[group]`."""

    group: str
    name: str
    value: str

    @property
    def module(self) -> str:
        """The module that the entry point names."""
        return self.value.partition("[")[0].partition(":")[0].strip()

    @property
    def attribute(self) -> str:
        """The attribute of the module; empty if the entry point names a module only."""
        return self.value.partition("[")[0].partition(":")[2].strip()


class Distribution:
    """One installed distribution: its folder of metadata."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def read_text(self, name: str) -> str | None:
        """The text of a metadata file; None if there is no such file."""
        try:
            with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return None

    @property
    def name(self) -> str:
        """Name as the distribution writes it; the name of its folder of metadata if it writes none."""
        return next(iter(self._fields["Name"]), "") or name_of_folder(self.folder)

    @property
    def version(self) -> str:
        """Version as the distribution writes it; empty if its metadata has no version."""
        return next(iter(self._fields["Version"]), "")

    @property
    def requires(self) -> list[str]:
        """The requirements as the distribution writes them, with their markers."""
        return self._fields["Requires-Dist"]

    @cached_property
    def entry_points(self) -> list[EntryPoint]:
        """The entry points of llmperf's groups."""
        try:
            with open(f"{self.folder}/entry_points.txt", "rb", buffering=0) as file:
                data = file.read()
        except OSError:
            return []
        group, entries = "", list[EntryPoint]()
        for line in map(str.strip, data.decode(errors="replace").splitlines()) if PROJECT in data else ():
            if line.startswith("[") and line.endswith("]"):
                group = line[1:-1].strip()
            elif group.startswith("llmperf.") and line and line[0] not in "#;" and "=" in line:
                name, _, value = line.partition("=")
                entries.append(EntryPoint(group, name.strip(), value.strip()))
        return entries

    @cached_property
    def _fields(self) -> dict[str, list[str]]:
        """Name, version and requirements in the header of the metadata, by field; the description is not read."""
        fields: dict[str, list[str]] = {name: [] for name in FIELDS}
        text = next(filter(None, map(self.read_text, HEAD_FILES)), "")
        for line in text.partition("\n\n")[0].split("\n"):
            field, _, value = line.partition(": ")
            if field in fields:
                fields[field].append(value.strip())
        return fields


class PluginFile(Distribution):
    """A plugin in one file of the folder that the user names; its version is a hash of the file."""

    @property
    def name(self) -> str:
        """The name of the file."""
        return os.path.basename(self.folder)

    @property
    def version(self) -> str:
        """The first digits of the file's SHA-256; empty if it cannot be read."""
        from hashlib import sha256

        try:
            with open(self.folder, "rb") as file:
                return f"sha256-{sha256(file.read()).hexdigest()[:12]}"
        except OSError:
            return ""

    @cached_property
    def entry_points(self) -> list[EntryPoint]:
        """The plugin that the file's name announces."""
        role, name = self.name.removesuffix(".py").split("_", 1)
        return [EntryPoint(f"llmperf.{role}.v1", name, f"{role}_{name}")]


class _Listing:
    """Distributions installed in a folder on `sys.path`."""

    def __init__(self, folder: str, modified: int) -> None:
        self.modified = modified
        """Time of the last change of the folder, in nanoseconds."""
        names = [name for name in sorted(os.listdir(folder)) if name.endswith(ENDINGS)]
        self.distributions = [Distribution(f"{folder}/{name}") for name in names]

    @cached_property
    def by_name(self) -> dict[str, Distribution]:
        """The first distribution of each normalized name."""
        return {normalized(name_of_folder(found.folder)): found for found in reversed(self.distributions)}


_listings: dict[str, _Listing] = {}
"""Listings by folder on `sys.path`."""


def distributions() -> Iterator[Distribution]:
    """All distributions on `sys.path`, in its order."""
    return (distribution for listing in _listed() for distribution in listing.distributions)


def announced(disabled: bool = False) -> Iterator[Distribution]:
    """The distributions and plugin files whose entry points count, or those that `LLMPERF_DISABLE` leaves out."""
    left_out = set(_disabled())
    found = [*distributions(), *_plugin_files()]
    return (one for one in found if (bool(left_out) and not left_out.isdisjoint(_names(one))) is disabled)


def _disabled() -> list[str]:
    return [normalized(name) for name in os.environ.get(DISABLE, "").replace(",", " ").split()]


def _names(found: Distribution) -> set[str]:
    """The names by which a distribution with plugins can be disabled."""
    plugins = {normalized(entry.name) for entry in found.entry_points if PLUGIN_GROUP.fullmatch(entry.group)}
    return {normalized(found.name), *plugins} if found.entry_points else plugins


def _plugin_files() -> list[PluginFile]:
    """The plugins in the folder of `LLMPERF_PLUGINS_DIR`, which can be imported afterwards."""
    folder = os.environ.get(FOLDER)
    if not folder or not os.path.isdir(folder):
        return []
    if folder not in sys.path:
        sys.path.append(folder)  # at the end, so that it hides no module
    return [PluginFile(f"{folder}/{name}") for name in sorted(os.listdir(folder)) if PLUGIN_FILE.fullmatch(name)]


def check_environment() -> None:
    """UserError if `LLMPERF_PLUGINS_DIR` is no folder or without plugins, or `LLMPERF_DISABLE` names none."""
    from llmperf.errors import UserError, unknown

    if folder := os.environ.get(FOLDER):
        if not os.path.isdir(folder):
            raise UserError(f"{FOLDER}: expected a folder, found {folder!r}")
        os.environ[FOLDER] = os.path.abspath(folder)  # for processes with another working directory
        if not _plugin_files():
            expected = "vendor_NAME.py, framework_NAME.py or extension_NAME.py, with a NAME in lower-case letters"
            raise UserError(f"{FOLDER}: expected a file {expected}, found none in {folder!r}")
    known = {name for found in [*distributions(), *_plugin_files()] for name in _names(found)} if _disabled() else set()
    for name in _disabled():
        if name not in known:
            raise unknown(DISABLE, "plugin or package", name, known)


def distribution(name: str) -> Distribution | None:
    """The first distribution of that name on `sys.path`; None if it is not installed."""
    wanted = normalized(name)
    return next((listing.by_name[wanted] for listing in _listed() if wanted in listing.by_name), None)


def version(name: str) -> str | None:
    """The version of a distribution; None if it is not installed."""
    found = distribution(name)
    return None if found is None else found.version


def package_version(package: str) -> str | None:
    """The version of the distribution that has an import package's name or lists it; None without one."""
    if (known := version(package)) is not None:
        return known
    lists = ((found, found.read_text("top_level.txt") or "") for found in distributions())
    return next((found.version or None for found, text in lists if package in text.split()), None)


def normalized(name: str) -> str:
    """A distribution's name in the form in which names are compared (PEP 503)."""
    name = name.lower().replace("_", "-").replace(".", "-")
    while "--" in name:
        name = name.replace("--", "-")
    return name


def name_of_folder(folder: str) -> str:
    """The distribution that a folder such as `site-packages/llmperf_core-0.1.0.dist-info` belongs to."""
    return os.path.basename(folder)[: -len(ENDINGS[0])].partition("-")[0]


def _listed() -> Iterator[_Listing]:
    """The distributions of each folder, in the order of `sys.path`."""
    for entry in dict.fromkeys(sys.path):
        folder = entry or "."
        try:
            modified = os.stat(folder).st_mtime_ns
            known = _listings.get(folder)
            if known is None or known.modified != modified:
                known = _listings[folder] = _Listing(folder, modified)
        except (OSError, TypeError, ValueError):  # not a folder, or not a path
            continue
        yield known


def source_hash(module: str) -> str | None:
    """SHA-256 over the Python files of the module's top-level package, by relative name and content; runs none."""
    import hashlib
    from importlib.util import find_spec
    from pathlib import Path

    try:
        package = find_spec(module.split(".")[0])
    except (ImportError, ValueError):
        return None
    if package is None or not package.has_location or package.origin is None:
        return None
    root = Path(package.origin)
    files = sorted(root.parent.rglob("*.py")) if root.name == "__init__.py" else [root]
    digest = hashlib.sha256()
    for file in files:
        digest.update(str(file.relative_to(root.parent)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()
