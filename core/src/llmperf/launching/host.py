"""The description of the controller's host that a run records."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from llmperf.files.text import printable, without_secrets
from llmperf.runfolder.endings import Host
from llmperf.types.devices import Facts

MAX_VALUE = 200


def recorded_environment(environment: Mapping[str, str], facts: Facts) -> dict[str, str]:
    """The variables that the facts name, with values of at most 200 characters.

    Variables whose names suggest a secret (`redaction.SECRET_NAME`) are left out.
    """
    names, prefixes = facts.environment_names, facts.environment_prefixes
    recorded = (name for name in sorted(without_secrets(environment)) if name in names or name.startswith(prefixes))
    return {name: printable(environment[name], "?")[:MAX_VALUE] for name in recorded}


def this_host(planned: Mapping[str, str], facts: Facts) -> Host:
    """The description of this host.

    Variables that plugins set for the ranks (`planned`) are recorded under any name, without secrets: the plan has
    them too. Of the inherited variables only those that the facts name are recorded.
    """
    set_by_plugins = {name: printable(value, "?")[:MAX_VALUE] for name, value in without_secrets(planned).items()}
    environment = {**recorded_environment(os.environ, facts), **set_by_plugins}
    return Host(
        os=_os_name(),
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        cpu=_cpu_name(),
        memory_bytes=_memory_bytes(),
        environment=dict(sorted(environment.items())),
        notable_packages=facts.packages,
    )


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def _cpu_name() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    found = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name") and ":" in line)
    return next(found, None) or platform.processor() or None


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None
