"""Which packages a rank ran with, from what it has imported."""

from __future__ import annotations

import platform
import sys
from importlib import metadata

MAX_VERSION = 100


def loaded_packages() -> dict[str, str]:
    """Versions of the imported top-level packages outside the standard library, and of Python, by import name."""
    found = {"python": platform.python_version()}
    for name in sorted({module.split(".")[0] for module in list(sys.modules)}):
        if name in sys.stdlib_module_names or name.startswith("_"):
            continue
        if (version := _version(name)) is not None:
            found[name] = version[:MAX_VERSION]
    return found


def _version(name: str) -> str | None:
    declared = vars(sys.modules[name]).get("__version__") if name in sys.modules else None
    if isinstance(declared, str):  # torch's says which build it is, as 2.15.0+cu132, where its metadata does not
        return str(declared)
    try:
        return metadata.version(name)
    except (metadata.PackageNotFoundError, ValueError):
        return None
