"""A plugin as it is announced, and the packages that this project ships, installed or not."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import llmperf
from llmperf.types.frozen import dataclass

if TYPE_CHECKING:
    from llmperf.hookspecs import Role

PROJECT = "llmperf"


@dataclass(frozen=True, slots=True)
class Found:
    """A plugin as the metadata of its distribution announces it."""

    name: str
    role: Role
    module: str
    distribution: str
    version: str
    api_version: int = llmperf.API_VERSION


@cache
def project_packages() -> Mapping[str, Any]:
    """The tables of `data/plugins.json`: the packages that this project ships, installed or not.

    `plugins` has the plugins by role, each in the distribution `llmperf-NAME`; `catalogues` those that know device
    models by name; `rules` what each extension offers; `data` the distribution that reads text;
    `documents` the file names of each kind of document that the extension of that name reads, or the one among
    `readers`; `options` the distribution of each option that one adds to a command of core; `languages` that of the
    texts in each language; `sections` those that compute each section of results; `tasks` that of each task of ranks;
    `folders` the folder of each distribution in a clone; `needs` its distributions of this project besides core and
    schemas.
    """
    # pathlib takes a twentieth of the time of `llmperf plugins`
    with open(os.path.join(os.path.dirname(llmperf.__file__), "data", "plugins.json"), "rb") as file:
        return json.load(file)  # type: ignore[no-any-return]


@cache
def published() -> Mapping[tuple[str, str], str]:
    """The distribution of each plugin that this project ships, installed or not, by role and name."""
    names_by_role = project_packages()["plugins"]
    return {
        (role, name): f"{PROJECT}-{name.replace('_', '-')}" for role, names in names_by_role.items() for name in names
    }


def vendors_with_catalogues() -> list[str]:
    """Vendor plugins that this project ships and that know device models by name, installed or not."""
    return list(project_packages()["catalogues"]["vendor"])


def of_this_project(found: Found) -> bool:
    """Check whether this project ships a plugin, and not another package of that name."""
    return found.distribution == published().get((found.role, found.name))


def is_own(distribution: str) -> bool:
    """Check whether this project ships a distribution."""
    return distribution in project_packages()["folders"]
