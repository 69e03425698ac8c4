"""`llmperf new`: a complete plugin package from a name, written completely or not at all."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Literal

from llmperf.errors import UserError
from llmperf.plugins.discovery import Found
from llmperf.plugins.own_packages import published

PLAIN = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
LONGEST = 40
PREFIX = "llmperf-"
"""Prefix of every distribution's name."""
TAKEN = {"llmperf-core": "llmperf itself", "llmperf-schemas": "llmperf itself"}
"""Distributions of the project that hold no plugin."""


@dataclass(frozen=True, slots=True)
class PackageName:
    """A name that has been checked, such as `acme-two`."""

    slug: str
    """Lower-case letters, digits and single dashes."""

    @property
    def distribution(self) -> str:
        """Name of the distribution: `llmperf-acme-two`."""
        return f"{PREFIX}{self.slug}"

    @property
    def plugin(self) -> str:
        """Name of the entry point, for `--vendor` or `--framework`: `acme_two`."""
        return self.slug.replace("-", "_")

    @property
    def package(self) -> str:
        """Name of the import package: `llmperf_acme_two`."""
        return f"llmperf_{self.plugin}"

    @property
    def title(self) -> str:
        """For people: `Acme Two`."""
        return " ".join(part.capitalize() for part in self.slug.split("-"))

    @property
    def camel(self) -> str:
        """In the names of classes: `AcmeTwo`."""
        return self.title.replace(" ", "")


def package_name(text: str, installed: Iterable[Found]) -> PackageName:
    """The name that was asked for; UserError, with the nearest that works, if it cannot be one or is taken."""
    if not PLAIN.fullmatch(text) or len(text) > LONGEST or text.startswith(PREFIX):
        expected = f"expected lower-case letters, digits and single dashes, a letter first, {LONGEST} at most"
        expected += f", without {PREFIX!r} before it" if text.startswith(PREFIX) else ""
        raise UserError(f"name: {expected}; found {text[: 2 * LONGEST]!r}{_nearest(text)}")
    name = PackageName(text)
    if (owner := _owners(installed).get(name.distribution)) is not None:
        other = f"my-{text}"[:LONGEST].strip("-")
        raise UserError(f"name: {name.distribution} is {owner} already; choose another name, such as '{other}'")
    return name


def _owners(installed: Iterable[Found]) -> dict[str, str]:
    """Each distribution that a name may not take, or would hide, and what it is."""
    owners = dict(TAKEN)
    for (role, name), distribution in published().items():
        owners[distribution] = f"llmperf's own {role} {name!r}"
    for one in installed:
        for distribution in (re.sub(r"[-_.]+", "-", one.distribution).lower(), f"llmperf-{one.name.replace('_', '-')}"):
            owners.setdefault(distribution, f"the installed {one.role} {one.name!r}")
    return owners


def _nearest(text: str) -> str:
    near = re.sub(r"[^a-z0-9]+", "-", text.lower()).lstrip("-0123456789").removeprefix(PREFIX)[:LONGEST].strip("-")
    return f"; did you mean {near!r}?" if PLAIN.fullmatch(near) else ""


Kind = Literal["vendor", "framework", "script"]
"""Kind of package; `script` is a framework that runs an external script."""

TEMPLATES = Path(__file__).parent / "templates"
ENDING = ".tmpl"
PLACES = {
    "gitignore": ".gitignore",
    "test.yml": ".github/workflows/test.yml",
    "release.yml": ".github/workflows/release.yml",
    "src/package/": "src/{package}/",
    "data/overlays/overlay.toml": "data/overlays/{plugin}_default.toml",
    "tests/test_own.py": "tests/test_{plugin}.py",
}
"""Where a template's file goes, if its path depends on the package or begins with a dot."""


def rendered(kind: Kind, name: PackageName, core_version: str) -> dict[str, str]:
    """The text of each file of the package that requires `core_version`, by path; UserError for a name of two files."""
    words = {
        "name": name.plugin,
        "slug": name.slug,
        "package": name.package,
        "distribution": name.distribution,
        "title": name.title,
        "camel": name.camel,
        "upper": name.plugin.upper(),
        "core": core_version,
    }
    files: dict[str, str] = {}
    for folder in (TEMPLATES / "shared", TEMPLATES / kind):
        for path in sorted(folder.rglob(f"*{ENDING}")):
            place = path.relative_to(folder).as_posix().removesuffix(ENDING)
            for begins, becomes in PLACES.items():
                place = place.replace(begins, becomes.format(package=name.package, plugin=name.plugin))
            if place in files:
                role = "vendor" if kind == "vendor" else "framework"
                clash = f"a {role} cannot be named {name.slug!r}: two files would be {place}"
                raise UserError(f"{clash}; choose another name")
            files[place] = Template(path.read_text(encoding="utf-8")).substitute(words)
    return dict(sorted(files.items()))


def write_package(folder: Path, files: dict[str, str]) -> None:
    """Create `folder` with the files in it, as a whole; UserError if it exists already or cannot be created."""
    if folder.exists() or folder.is_symlink():
        raise UserError(f"{folder}: is there already, and nothing is overwritten; choose another place with --out")
    made = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        for place, text in files.items():
            path = made / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        umask = os.umask(0o077)  # it can be read only by setting it
        os.umask(umask)
        made.chmod(0o777 & ~umask)
        os.rename(made, folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror or error}") from None
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
