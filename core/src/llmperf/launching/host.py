"""The description of a host that a run records."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping

from llmperf.errors import LlmperfError
from llmperf.files.text import printable, without_secrets
from llmperf.planning.host_facts import MAX_VALUE, cpu_name, memory_bytes, os_name, recorded_environment
from llmperf.planning.vendors import asked
from llmperf.plugins.discovery import find
from llmperf.plugins.loading import Plugins
from llmperf.runfolder.endings import Host
from llmperf.types.devices import Facts


def this_host(planned: Mapping[str, str], facts: Facts) -> Host:
    """The description of this host.

    Variables that plugins set for the ranks (`planned`) are recorded under any name, without secrets: the plan has
    them too. Of the inherited variables only those that the facts name are recorded.
    """
    set_by_plugins = {name: printable(value, "?")[:MAX_VALUE] for name, value in without_secrets(planned).items()}
    environment = {**recorded_environment(os.environ, facts), **set_by_plugins}
    return Host(
        os=os_name(),
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        cpu=cpu_name(),
        memory_bytes=memory_bytes(),
        environment=dict(sorted(environment.items())),
        notable_packages=facts.packages,
    )


def driver_here(vendor: str, plugins: Plugins) -> str | None:
    """Version of the driver that a loaded vendor plugin sees here; None if it is unknown or the plugin fails."""
    try:
        return asked(find("vendor", vendor), plugins).driver
    except LlmperfError:
        return None
