"""The files of a new package, rendered from the templates; a package is written completely or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from string import Template
from typing import Literal

from llmperf.errors import UserError

from llmperf_testing.scaffold.names import PackageName

Kind = Literal["vendor", "framework", "script"]
"""Kind of package; `script` is a framework that runs an external script."""

TEMPLATES = Path(__file__).parent / "templates"
ENDING = ".tmpl"
PLACES = {
    "gitignore": ".gitignore",
    "test.yml": ".github/workflows/test.yml",
    "src/package/": "src/{package}/",
    "data/overlays/overlay.toml": "data/overlays/{plugin}_default.toml",
    "tests/test_own.py": "tests/test_{plugin}.py",
}
"""Where a template's file goes, if its path depends on the package or begins with a dot."""


def rendered(kind: Kind, name: PackageName, core_version: str) -> dict[str, str]:
    """The text of each file of the package, by path; `core_version` is the version that it will require.

    UserError if the name gives two files the same path.
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
                role = "vendor" if kind == "vendor" else "framework"
                clash = f"a {role} cannot be named {name.slug!r}: two files would be {place}"
                raise UserError(f"{clash}; choose another name")
            files[place] = Template(path.read_text(encoding="utf-8")).substitute(words)
    return dict(sorted(files.items()))


def _place(path: str, name: PackageName) -> str:
    for begins, becomes in PLACES.items():
        path = path.replace(begins, becomes.format(package=name.package, plugin=name.plugin))
    return path


def write_package(folder: Path, files: dict[str, str]) -> None:
    """Create `folder` with the files in it; UserError if it exists already or cannot be created.

    The files are written to a temporary folder beside it, which is renamed when it is complete.
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
        umask = os.umask(0o077)  # it can be read only by setting it
        os.umask(umask)
        made.chmod(0o777 & ~umask)
        os.rename(made, folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror or error}") from None
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
