"""What an installed plugin needs beside it: read from its metadata, nothing is imported."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from importlib import metadata

from llmperf.hookspecs import PROJECT

CORE = f"{PROJECT}-core"
NAME = re.compile(r"[\w.-]+")


def missing_requirements(distribution: str) -> list[str]:
    """What a distribution requires, as it writes it, and is not installed here; extras are not asked for.

    What it requires of this project, such as another plugin that it builds on, is asked for its own requirements too.
    """
    return list(dict.fromkeys(_missing(distribution, {CORE})))


def _missing(distribution: str, seen: set[str]) -> list[str]:
    missing: list[str] = []
    seen.add(distribution)
    for requirement in metadata.requires(distribution) or []:
        specifier, _, marker = requirement.partition(";")
        name = NAME.match(specifier.strip())
        if marker.strip() or name is None:
            continue
        try:
            metadata.version(name[0])
        except metadata.PackageNotFoundError:
            missing.append(specifier.strip())
            continue
        if name[0].startswith(f"{PROJECT}-") and name[0] not in seen:
            missing += _missing(name[0], seen)
    return missing


def install_command(requirements: Sequence[str]) -> str:
    """What installs them, to be typed into a shell as it is: `uv pip install 'torch>=2.6'`."""
    return shlex.join(["uv", "pip", "install", *requirements])
