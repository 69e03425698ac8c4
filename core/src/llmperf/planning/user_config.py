"""The user's configuration file `llmperf.toml`: worker environments, defaults, hosts, options of launchers, prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmperf.cases.fields import check_table
from llmperf.errors import UserError, unknown
from llmperf.files import json_files
from llmperf.files.user_files import config_file, own_config_file, read_config
from llmperf.types.remote import Containers
from llmperf.types.spec import DataSource

NAME = "llmperf.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """`[default]`: what a run uses unless an option says otherwise."""

    vendor: str | None = None
    framework: str | None = None
    environment: str | None = None
    """A name from `[environments]`, as `--python`."""
    interface: str | None = None
    """Network interface of the nodes, as `--interface`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Tables of `llmperf.toml`."""

    environments: Mapping[str, str] = field(default_factory=dict)
    """Path of a Python executable, or of the folder of its environment, by the name of the environment."""
    default: Defaults = Defaults()
    """Defaults of a run, which options override."""
    hosts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Hosts by the name of the group."""
    containers: Containers = field(default_factory=Containers)
    """Containers of `--container-image` for launchers that start none themselves."""
    launchers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options by the name of the launcher, which checks them."""
    trust: Mapping[str, Any] = field(default_factory=dict)
    """Whose signatures count. The package that verifies them checks it."""
    data: Mapping[str, DataSource] = field(default_factory=dict)
    """Locations of data sets on this machine, by the name in `contract.dataset`, for `llmperf validate --rerun`."""
    prices: Mapping[str, Any] = field(default_factory=dict)
    """Prices of devices, by the model as results name it. The package that computes costs checks it."""
    electricity: Mapping[str, Any] = field(default_factory=dict)
    """Price of a kilowatt hour; checked as the prices are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserConfig:
    """The configuration file of a user."""

    path: Path | None = None
    """None if there is no file; the tables are empty then."""
    tables: Tables = Tables()

    def python(self, text: str, here: bool = True) -> tuple[Path, str | None]:
        """The executable for `--python`, which must exist if ranks run `here`, and its environment's name."""
        environments = self.tables.environments
        if text in environments:
            folder = self.path.parent if self.path else Path()
            path = folder / Path(environments[text]).expanduser()
            return _executable(path, f"{self.path}: environments.{text}", here), text
        if "/" in text:
            return _executable(Path(text).expanduser(), "--python", here), None
        where = f"--python: {self.path}" if self.path else f"--python: no {NAME} here"
        raise unknown(where, "environment", text, environments)

    def host_names(self, text: str) -> tuple[str, ...]:
        """The hosts of `--hosts a,b`, in which a name from `[hosts]` means all hosts of that group."""
        names = [name.strip() for name in text.split(",") if name.strip()]
        hosts = [host for name in names for host in self.tables.hosts.get(name, (name,))]
        repeated = next((host for host in hosts if hosts.count(host) > 1), None)
        if repeated is not None:
            raise UserError(f"--hosts {text}: {repeated!r} is named twice")
        return tuple(hosts)


def _executable(path: Path, where: str, here: bool) -> Path:
    path = path.absolute()  # links are kept: Python finds its environment by the path of the link
    if path.is_dir() and (path / "bin" / "python").exists():
        return path / "bin" / "python"
    if here and not path.is_file():
        raise UserError(f"{where}: expected a Python executable or the folder of an environment, found no {path}")
    return path


def user_config(folder: Path) -> UserConfig:
    """The configuration in `folder` or above it, else the user's own, else an empty one."""
    return configuration(config_file(NAME, folder))


def own_config() -> UserConfig:
    """The user's own configuration, for verifications: a file in the folder of a submission is the submitter's."""
    return configuration(own_config_file(NAME))


def configuration(path: Path | None) -> UserConfig:
    """The configuration in a file, an empty one for None. UserError as from `user_config`."""
    if path is None:
        return UserConfig()
    content = read_config(path)
    check_table(content, Tables, str(path))
    tables = json_files.convert(content, Tables, str(path))
    chosen = tables.default.environment
    if chosen is not None and chosen not in tables.environments:
        raise unknown(f"{path}: default.environment", "environment", chosen, tables.environments)
    return UserConfig(path=path, tables=tables)
