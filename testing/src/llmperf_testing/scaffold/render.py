"""Files of a new package from the templates that the core ships, written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from string import Template
from typing import Literal

from llmperf.errors import UserError

from llmperf_testing.scaffold.names import PackageName

Kind = Literal["vendor", "framework"]

TEMPLATES = Path(__file__).parent / "templates"
ENDING = ".tmpl"
PLACES = {
    "gitignore": ".gitignore",
    "test.yml": ".github/workflows/test.yml",
    "src/package/": "src/{package}/",
    "data/overlays/overlay.toml": "data/overlays/{plugin}_default.toml",
    "tests/test_own.py": "tests/test_{plugin}.py",
}
"""Where a template's file goes, if its place or name depends on the package or begins with a dot."""


def rendered(kind: Kind, name: PackageName, core_version: str) -> dict[str, str]:
    """Every file of the package by its path, for a version of the core that it is made for; the same each time.

    UserError where the name gives two of them one path.
    """
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
            place = _place(path.relative_to(folder).as_posix().removesuffix(ENDING), name)
            if place in files:
                told = f"a {kind} cannot be named {name.slug!r}: two files would be {place}"
                raise UserError(f"{told}; choose another name")
            files[place] = Template(path.read_text(encoding="utf-8")).substitute(words)
    return dict(sorted(files.items()))


def _place(path: str, name: PackageName) -> str:
    for begins, becomes in PLACES.items():
        path = path.replace(begins, becomes.format(package=name.package, plugin=name.plugin))
    return path


def write_package(folder: Path, files: dict[str, str]) -> None:
    """Make `folder` with the files in it; UserError if it is there already or cannot be made.

    Everything is written beside it under another name, and renamed when it is complete.
    """
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
        made.chmod(0o777 & ~_umask())
        os.rename(made, folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror or error}") from None
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)


def _umask() -> int:
    """The process's own, which can be read only by setting it."""
    present = os.umask(0o077)
    os.umask(present)
    return present
