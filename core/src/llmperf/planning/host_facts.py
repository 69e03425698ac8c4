"""The hosts of a run: names in a short form, variables of their interfaces and loaders, and package versions."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmperf.types.plan import Plan

INTERFACE = "{interface}"
"""Placeholder in a variable of the ranks: the interface of their node, which the agent fills in."""


def interface_variables(plan: Plan, *names: str) -> dict[str, str]:
    """Variables that name the network interface of the ranks, for each node's agent to fill in."""
    if plan.layout.nodes == 1:
        return {}
    return {name: os.environ.get(name, INTERFACE) for name in names}


def this_interpreter() -> str:
    """The Python that runs llmperf."""
    return str(Path(sys.executable))


def compact_hosts(hosts: Iterable[str]) -> str:
    """Host names in a short form, such as `gpu, node[01-03,07]`."""
    groups: dict[tuple[str, int], list[str]] = {}
    for host in hosts:
        stem = host.rstrip("0123456789")
        groups.setdefault((stem, len(host) - len(stem)), []).append(host[len(stem) :])
    parts = []
    for (stem, _), digits in groups.items():
        runs: list[list[str]] = []
        for number in sorted(set(digits), key=lambda text: int(text or 0)):
            if runs and int(number) == int(runs[-1][-1]) + 1:
                runs[-1].append(number)
            else:
                runs.append([number])
        texts = [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
        parts.append(f"{stem}{texts[0]}" if len(set(digits)) == 1 else f"{stem}[{','.join(texts)}]")
    return ", ".join(parts)


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
