"""The description of a host: system, processor, memory, packages and the variables that plugins name."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path

from llmperf.files.text import printable, without_secrets
from llmperf.types.devices import Facts

MAX_VALUE = 200
"""Longest value of a variable that is recorded."""


def recorded_environment(environment: Mapping[str, str], facts: Facts) -> dict[str, str]:
    """The variables that the facts name, with values of at most 200 characters.

    Variables whose names suggest a secret (`redaction.SECRET_NAME`) are left out.
    """
    names, prefixes = facts.environment_names, facts.environment_prefixes
    recorded = (name for name in sorted(without_secrets(environment)) if name in names or name.startswith(prefixes))
    return {name: printable(environment[name], "?")[:MAX_VALUE] for name in recorded}


def os_name() -> str:
    """The distribution, such as `Debian GNU/Linux 12 (bookworm)`; otherwise the system."""
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def cpu_name() -> str | None:
    """The model of the first processor; None if the system does not name it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name") and ":" in line)
    return next(models, None) or platform.processor() or None


def memory_bytes() -> int | None:
    """Memory of the host."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def package_versions(names: tuple[str, ...]) -> dict[str, str]:
    """Versions of the installed packages among these import names; nothing is imported."""
    from llmperf.plugins.installed import package_version

    versions = {name: package_version(name) for name in sorted(names)}
    return {name: known for name, known in versions.items() if known is not None}


PREFIXES = ("LD_", "DYLD_", "PYTHON")
"""Read by the dynamic loader and by the Python interpreter before any code of llmperf runs."""
HARMLESS = ("PYTHONUNBUFFERED",)
"""Loads nothing. llmperf sets it for all ranks itself."""


def injecting(names: Iterable[str]) -> str | None:
    """A problem if one of these variables loads code into the ranks; None if none does."""
    found = next((name for name in sorted(names) if name.startswith(PREFIXES) and name not in HARMLESS), None)
    if found is None:
        return None
    forbidden = ", ".join(f"{prefix}*" for prefix in PREFIXES)
    return f"expected no variable of the loader or the interpreter ({forbidden}), found {found}; set it in your shell"
