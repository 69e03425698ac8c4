"""The name of a new plugin, and all that is called after it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from llmperf.errors import UserError
from llmperf.plugins.discovery import Found
from llmperf.plugins.own_packages import published

PLAIN = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
LONGEST = 40
PREFIX = "llmperf-"
"""Prefix of every distribution's name."""
TAKEN = {"llmperf-core": "llmperf itself", "llmperf-schemas": "llmperf itself"}
"""Distributions of the project that hold no plugin."""


@dataclass(frozen=True, slots=True)
class PackageName:
    """A name that has been checked, such as `acme-two`."""

    slug: str
    """Lower-case letters, digits and single dashes."""

    @property
    def distribution(self) -> str:
        """Name of the distribution: `llmperf-acme-two`."""
        return f"{PREFIX}{self.slug}"

    @property
    def plugin(self) -> str:
        """Name of the entry point, for `--vendor` or `--framework`: `acme_two`."""
        return self.slug.replace("-", "_")

    @property
    def package(self) -> str:
        """Name of the import package: `llmperf_acme_two`."""
        return f"llmperf_{self.plugin}"

    @property
    def title(self) -> str:
        """For people: `Acme Two`."""
        return " ".join(part.capitalize() for part in self.slug.split("-"))

    @property
    def camel(self) -> str:
        """In the names of classes: `AcmeTwo`."""
        return self.title.replace(" ", "")


def package_name(text: str, installed: Iterable[Found]) -> PackageName:
    """The name that was asked for; UserError, with the nearest that works, if it cannot be one or is taken."""
    if not PLAIN.fullmatch(text) or len(text) > LONGEST or text.startswith(PREFIX):
        expected = f"expected lower-case letters, digits and single dashes, a letter first, {LONGEST} at most"
        expected += f", without {PREFIX!r} before it" if text.startswith(PREFIX) else ""
        raise UserError(f"name: {expected}; found {text[: 2 * LONGEST]!r}{_nearest(text)}")
    name = PackageName(text)
    if (owner := _owners(installed).get(name.distribution)) is not None:
        raise UserError(f"name: {name.distribution} is {owner} already; choose another name, such as '{_other(text)}'")
    return name


def _owners(installed: Iterable[Found]) -> dict[str, str]:
    """Each distribution that a name may not take, or would hide, and what it is."""
    owners = dict(TAKEN)
    for (role, name), distribution in published().items():
        owners[distribution] = f"llmperf's own {role} {name!r}"
    for one in installed:
        for distribution in (re.sub(r"[-_.]+", "-", one.distribution).lower(), f"llmperf-{one.name.replace('_', '-')}"):
            owners.setdefault(distribution, f"the installed {one.role} {one.name!r}")
    return owners


def _nearest(text: str) -> str:
    near = re.sub(r"[^a-z0-9]+", "-", text.lower()).lstrip("-0123456789").removeprefix(PREFIX)[:LONGEST].strip("-")
    return f"; did you mean {near!r}?" if PLAIN.fullmatch(near) else ""


def _other(text: str) -> str:
    return f"my-{text}"[:LONGEST].strip("-")
