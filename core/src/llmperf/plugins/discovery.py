"""Finds the installed plugins by the metadata of their distributions; imports none of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from llmperf import API_VERSION
from llmperf.errors import PluginError, unknown
from llmperf.plugins.installed import DISABLE, announced
from llmperf.plugins.own_packages import PROJECT, published
from llmperf.plugins.own_packages import Found as Found

if TYPE_CHECKING:
    from llmperf.hookspecs import Role

ROLES: tuple[Role, ...] = ("vendor", "framework", "extension")
GROUP = re.compile(rf"{PROJECT}\.({'|'.join(ROLES)})\.v([0-9]+)")
"""A group of entry points: role and API version."""


def discover(disabled: bool = False) -> list[Found]:
    """Every plugin installed in this environment, of any API version, by role and name; or those that are disabled."""
    plugins = {
        Found(entry.name, cast("Role", group[1]), entry.value, owner.name, owner.version, int(group[2]))
        for owner in announced(disabled)
        for entry in owner.entry_points
        if (group := GROUP.fullmatch(entry.group))
    }
    return sorted(plugins, key=lambda plugin: (ROLES.index(plugin.role), plugin.name, plugin.distribution))


def names(role: Role, among: Iterable[Found] | None = None) -> list[str]:
    """Names of the installed plugins of one role for this API version."""
    plugins = discover() if among is None else among
    return sorted({plugin.name for plugin in plugins if plugin.role == role and plugin.api_version == API_VERSION})


def find(role: Role, name: str, among: Iterable[Found] | None = None) -> Found:
    """The installed plugin of that name; PluginError if there is none, or two, or if it is for another API version."""
    of_role = [plugin for plugin in (discover() if among is None else among) if plugin.role == role]
    same_name = [plugin for plugin in of_role if plugin.name == name]
    current = [plugin for plugin in same_name if plugin.api_version == API_VERSION]
    if len(current) > 1:
        both = " and ".join(f"{plugin.distribution} {plugin.version}" for plugin in current)
        raise PluginError(f"{role} {name!r} is claimed by {both}; uninstall or disable one of them")
    if current:
        return current[0]
    if same_name:
        plugin = same_name[0]
        raise PluginError(
            f"{role} {name!r} ({plugin.distribution} {plugin.version}) is for plugin API v{plugin.api_version};"
            f" this llmperf speaks v{API_VERSION}; {upgrade(plugin)}"
        )
    if any((plugin.role, plugin.name) == (role, name) for plugin in discover(disabled=True)):
        raise PluginError(f"{role} {name!r} is disabled by {DISABLE}={os.environ[DISABLE]}")
    if (package := published().get((role, name))) is not None:
        from llmperf.plugins.mending import install_own

        raise PluginError(f"{role} {name!r} ({package}) is not installed; install it with: {install_own(package)}")
    known = {plugin.name for plugin in of_role} | {shipped for kind, shipped in published() if kind == role}
    raise PluginError(str(unknown("", role, name, known)))


def upgrade(found: Found) -> str:
    """Advice for a plugin of another API version: which of core and plugin to upgrade."""
    newer = f"{PROJECT}-core" if found.api_version > API_VERSION else found.distribution
    return f"upgrade {newer}"
