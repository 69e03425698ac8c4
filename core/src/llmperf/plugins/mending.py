"""The shell commands that mend an installation, with sources that exist: this project is on no package index."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from llmperf.plugins.faults import who
from llmperf.plugins.installed import DISABLE, announced
from llmperf.plugins.installed import distribution as installed_distribution
from llmperf.plugins.own_packages import PROJECT, is_own, project_packages
from llmperf.plugins.requirements import Unmet, unmet_requirements

if TYPE_CHECKING:
    from llmperf.plugins.own_packages import Found


@dataclass(frozen=True)
class Source:
    """Origin of an installed distribution, by its `direct_url.json`."""

    given: str
    """Origin as an installer takes it: a folder, a file, or a URL; that of a repository begins with `git+`."""
    folder: Path | None = None
    """The folder; None for other sources."""
    editable: bool = False

    @property
    def gone(self) -> bool:
        """The folder no longer exists."""
        return self.folder is not None and not self.folder.is_dir()


def source(distribution: str) -> Source | None:
    """The source of an installed distribution; None for a package index and if the source is unknown."""
    installed = installed_distribution(distribution)
    try:
        document = json.loads((installed and installed.read_text("direct_url.json")) or "null")
    except ValueError:
        return None
    if not isinstance(document, dict) or not isinstance(url := document.get("url"), str):
        return None
    path = Path(unquote(urlsplit(url).path)) if url.startswith("file:") else None
    if isinstance(document.get("vcs_info"), dict):
        info = document["vcs_info"]
        revision = info.get("requested_revision")
        return Source(f"{info.get('vcs', 'git')}+{url}" + (f"@{revision}" if revision else ""))
    if isinstance(document.get("dir_info"), dict) and path is not None:
        return Source(str(path), path, bool(document["dir_info"].get("editable")))
    return Source(url if path is None else str(path))


def unmet_problem(found: Found) -> str | None:
    """One line on the unmet requirements of a plugin, with the command that installs them; None if all are met."""
    unmet = unmet_requirements(found.distribution)
    if not unmet:
        return None
    command = install(unmet)
    mend = f"install with: {command}" if command else "install that from where its author offers it"
    return f"{who(found)} needs {', '.join(map(str, unmet))}; {mend}"


def install_own(distribution: str) -> str:
    """The command that installs a distribution of this project, and its missing requirements: `uv sync`, pip or uv."""
    if any(found.name == distribution for found in announced(disabled=True)):
        return f"unset {DISABLE}  # it disables {distribution}"
    clone = _clone()
    if clone is not None and Path(sys.prefix) == clone / ".venv":
        return f"{_uv(clone)} {shlex.join(['sync', '--inexact', '--project', str(clone)])}"
    packages = project_packages()
    needed = [*packages["needs"].get(distribution, ()), distribution]
    missing = [name for name in needed if name == distribution or installed_distribution(name) is None]
    folders = shlex.join(f"{clone or '.'}/{packages['folders'][name]}" for name in missing)
    where = f"  # in a clone of {PROJECT}" if clone is None else ""
    python = shlex.quote(sys.executable)
    if find_spec("pip") is not None:
        return f"{python} -m pip install {folders}{where}"
    return f"{_uv(clone)} pip install --python {python} {folders}{where}"


def pip_command(command: str, *words: str) -> str:
    """`uv pip COMMAND` as the user's shell can run it: with uv, this environment's pip, or the script `dev`."""
    clone, python = _clone(), shlex.quote(sys.executable)
    if (uv := _uv(clone)) != "uv" and find_spec("pip") is not None:
        options = {"--reinstall": "--force-reinstall"}
        return f"{python} -m pip {command} {shlex.join(options.get(word, word) for word in words)}"
    if uv == "uv" or clone is None:
        return f"uv pip {command} {shlex.join(words)}"
    return f"{uv} pip {command} --python {python} {shlex.join(words)}"


def _uv(clone: Path | None) -> str:
    """uv as a shell runs it: by the script `dev` of the clone, which installs it, unless the user's PATH has one."""
    found, root = which("uv"), clone or "."
    if found is not None and Path(root, ".uv") not in Path(found).parents:
        return "uv"
    return f"{shlex.quote(f'{root}/dev')} uv"


def _clone() -> Path | None:
    """The root of the clone from which this llmperf was installed; None if there is no clone."""
    core = source(f"{PROJECT}-core")
    if core is None or core.folder is None:
        return None
    return core.folder.parent if (core.folder.parent / "pyproject.toml").is_file() else None


def install(unmet: Iterable[Unmet]) -> str | None:
    """The command that installs requirements; None if the source of one of them is unknown."""
    commands: list[str] = []
    from_index: list[str] = []
    own: list[str] = []  # joined last, since it ends with a comment
    for requirement in unmet:
        name = requirement.name.lower().replace("_", "-")
        origin = source(requirement.name)
        if is_own(name) and requirement.installed:  # another version, after the clone was updated
            where = f"a clone of {PROJECT}" if (clone := _clone()) is None else shlex.quote(str(clone))
            command = install_own(name).partition("  #")[0]
            own.append(f"{command}  # after updating {where} to a version that fits")
        elif is_own(name):
            commands.append(install_own(name))
        elif origin is not None and not origin.gone:
            commands.append(reinstall_command(origin))
        elif origin is not None or name.startswith(f"{PROJECT}-"):
            return None
        else:
            from_index.append(requirement.requirement)
    if from_index:
        commands.append(pip_command("install", *from_index))
    return " && ".join(dict.fromkeys([*commands, *own])) or None


def reinstall_command(origin: Source) -> str:
    """The command that installs a distribution again from its source."""
    return pip_command("install", "--reinstall", *["-e"] * origin.editable, origin.given)
