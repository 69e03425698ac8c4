"""The commands that mend an installation, to be typed into a shell as they are.

A distribution is only ever installed from where it can be had: this project's own are on no package index, and neither
need be a plugin that was installed from a folder, a repository or a file.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from llmperf.hookspecs import PROJECT
from llmperf.plugins.discovery import Found, published
from llmperf.plugins.faults import who
from llmperf.plugins.installed import distribution as installed_distribution
from llmperf.plugins.requirements import Unmet, unmet_requirements


def is_own(distribution: str) -> bool:
    """Whether this project ships a distribution."""
    return distribution in {f"{PROJECT}-core", f"{PROJECT}-schemas", *published().values()}


@dataclass(frozen=True)
class Source:
    """Where a distribution was installed from, by its `direct_url.json`."""

    given: str
    """As an installer takes it: a folder, a file, or a URL, with `git+` before a repository's."""
    folder: Path | None = None
    """The folder, if it was one."""
    editable: bool = False

    @property
    def gone(self) -> bool:
        """Whether its folder is not there any more."""
        return self.folder is not None and not self.folder.is_dir()


def source(distribution: str) -> Source | None:
    """Where an installed distribution came from; None for an index, and where that is not known."""
    installed = installed_distribution(distribution)
    try:
        document = json.loads((installed and installed.read_text("direct_url.json")) or "null")
    except ValueError:
        return None
    if not isinstance(document, dict) or not isinstance(url := document.get("url"), str):
        return None
    path = Path(unquote(urlsplit(url).path)) if url.startswith("file:") else None
    if isinstance(document.get("vcs_info"), dict):
        return Source(_repository(url, document["vcs_info"]))
    if isinstance(document.get("dir_info"), dict) and path is not None:
        return Source(str(path), path, bool(document["dir_info"].get("editable")))
    return Source(url if path is None else str(path))


def _repository(url: str, info: dict[str, Any]) -> str:
    revision = info.get("requested_revision")
    return f"{info.get('vcs', 'git')}+{url}" + (f"@{revision}" if revision else "")


def unmet_problem(found: Found) -> str | None:
    """One line for a plugin whose requirements are not met here, with what mends it; None where all are."""
    unmet = unmet_requirements(found.distribution)
    if not unmet:
        return None
    command = install(unmet)
    mend = f"install with: {command}" if command else "install that from where its author offers it"
    return f"{who(found)} needs {', '.join(map(str, unmet))}; {mend}"


def install_own() -> str:
    """What installs this project's distributions: from the clone, if llmperf runs from one, else from any."""
    clone = _clone()
    if clone is None:
        return f"uv sync --inexact  # in a clone of {PROJECT}"
    active = [] if Path(sys.prefix).parent == clone else ["--active"]
    return shlex.join(["uv", "sync", "--inexact", *active, "--project", str(clone)])


def update_own() -> str:
    """What brings this project's distributions to another version: the clone is updated first."""
    clone = _clone()
    where = f"a clone of {PROJECT}" if clone is None else shlex.quote(str(clone))
    return f"{install_own()}  # after updating {where} to a version that fits"


def _clone() -> Path | None:
    """The root of the clone that this llmperf is installed from as editable."""
    core = source(f"{PROJECT}-core")
    if core is None or not core.editable or core.folder is None:
        return None
    return core.folder.parent if (core.folder.parent / "pyproject.toml").is_file() else None


def install(unmet: Iterable[Unmet]) -> str | None:
    """What installs requirements; None where one of them is on no index that is known to have it."""
    commands: list[str] = []
    from_index: list[str] = []
    own: list[str] = []  # last, since it ends with a comment
    for one in unmet:
        name = one.name.lower().replace("_", "-")
        origin = source(one.name)
        if is_own(name):
            (own if one.installed else commands).append(update_own() if one.installed else install_own())
        elif origin is not None and not origin.gone:
            commands.append(_reinstall(origin))
        elif origin is not None or name.startswith(f"{PROJECT}-"):
            return None
        else:
            from_index.append(one.requirement)
    if from_index:
        commands.append(shlex.join(["uv", "pip", "install", *from_index]))
    return " && ".join(dict.fromkeys([*commands, *own])) or None


def _reinstall(origin: Source) -> str:
    return shlex.join(["uv", "pip", "install", "--reinstall", *["-e"] * origin.editable, origin.given])


def reinstall(distribution: str) -> str | None:
    """What installs a distribution again from where it came; None if that is gone."""
    if is_own(distribution):
        return install_own()
    origin = source(distribution)
    if origin is None:
        return shlex.join(["uv", "pip", "install", "--upgrade", "--reinstall", distribution])
    return None if origin.gone else _reinstall(origin)


def uninstall(*distributions: str) -> str:
    """What takes the first of some distributions away, with the others as a comment."""
    return "  # or: ".join(shlex.join(["uv", "pip", "uninstall", one]) for one in distributions)


def moved(found: Found) -> str | None:
    """That the folder of an editable plugin is gone, if it is."""
    origin = source(found.distribution)
    if origin is None or not origin.gone or not origin.editable:
        return None
    return f"its folder {origin.given} is gone; install it again from where it is now: uv pip install -e FOLDER"
