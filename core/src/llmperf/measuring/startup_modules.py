"""Modules that the interpreter imports by itself before a rank's own code runs."""

from __future__ import annotations

import site
import sys
import sysconfig
from importlib.machinery import PathFinder
from pathlib import Path

from llmperf.files.text import printable

MAX_PATH = 200
"""Characters of a path that are recorded."""


def startup_modules() -> dict[str, str]:
    """Files of `sitecustomize` and `usercustomize`, by name; without those that came with the interpreter.

    Distributions of Linux ship a `sitecustomize` in the folder of the standard library.
    """
    names = ["sitecustomize", *(["usercustomize"] if site.ENABLE_USER_SITE else [])]
    shipped = Path(sysconfig.get_path("stdlib")).resolve()
    files = {}
    for name in names:
        spec = None if sys.flags.no_site else PathFinder.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        if Path(spec.origin).parent.resolve() != shipped:  # not the file's own folder: Debian has a link to /etc there
            files[name] = printable(spec.origin, "?")[:MAX_PATH]
    return files
