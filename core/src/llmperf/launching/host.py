"""The description of a host that a run records."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping

from llmperf.files.text import printable, without_secrets
from llmperf.planning.host_facts import MAX_VALUE, cpu_name, memory_bytes, os_name, recorded_environment
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
