"""Versions of the packages of a host, and variables that would load code into the ranks."""

from __future__ import annotations

from collections.abc import Iterable


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
