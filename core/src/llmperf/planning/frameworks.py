"""Whether the framework of a run can be used in this environment, and which others could be instead."""

from __future__ import annotations

from collections.abc import Callable

from llmperf.errors import PluginError
from llmperf.hookspecs import Role
from llmperf.plugins.discovery import find, names, published_package
from llmperf.plugins.mending import unmet_problem


def packages_problem(name: str, role: Role = "framework") -> str | None:
    """One line for an installed plugin whose requirements are not, or not in a version that fits: ranks would only end
    in a traceback.

    None where nothing is missing, and for a plugin that is not installed itself.
    """
    try:
        found = find(role, name)
    except PluginError:
        return None
    return unmet_problem(found)


def others_that_plan(framework: str, plans: Callable[[str], bool]) -> str:
    """What to say of other installed frameworks with which the same run could start; empty if there are none.

    `plans` tells whether the run has no problems with a framework. Only a framework that is known by name, and misses
    its packages or is not installed, is replaced: a misspelt one has a nearer choice.
    """
    installed = names("framework")
    if framework not in installed and published_package("framework", framework) is None:
        return ""
    candidates = [name for name in installed if name != framework and packages_problem(name) is None]
    working = [f"--framework {name}" for name in candidates if plans(name)]
    return f"; what is installed can run it by {' or '.join(working)}" if working else ""
