"""The requirements of installed distributions, read from their metadata; nothing is imported."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llmperf.hookspecs import PROJECT
from llmperf.plugins.installed import distribution as installed_distribution
from llmperf.plugins.installed import normalized, version
from llmperf.types.frozen import dataclass

BOUND = r"(?:>=|<)\s*\d+(?:\.\d+)*"
PLAIN = re.compile(
    rf"(?P<name>[A-Za-z0-9][\w.-]*)\s*(?P<bounds>{BOUND}(?:\s*,\s*{BOUND})*)?\s*(?:;\s*(?P<marker>.*))?", re.DOTALL
)
"""Simple requirements, which are parsed here. `packaging` parses the others; importing it is slow."""
EXTRA = re.compile(r"extra\s*==\s*('[^']*'|\"[^\"]*\")")
"""The marker of a requirement that belongs to an extra only."""
RELEASE = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True)
class Unmet:
    """A requirement that is not installed here, or installed in a version that does not fit."""

    requirement: str
    """Requirement as an installer takes it, such as `torch>=2.6`, without its marker."""
    name: str
    """The distribution that is required."""
    installed: str | None
    """The installed version; None if it is not installed."""

    def __str__(self) -> str:
        return f"{self.requirement} ({f'found {self.installed}' if self.installed else 'not installed'})"


def unmet_requirements(distribution: str) -> list[Unmet]:
    """The unmet requirements of a distribution, and of those of this project or with extras that it requires."""
    return list(dict.fromkeys(_unmet(distribution, frozenset(), {(f"{PROJECT}-core", frozenset())})))


def _unmet(distribution: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> Iterator[Unmet]:
    if (distribution, extras) in seen:
        return
    seen.add((distribution, extras))
    found = installed_distribution(distribution)
    for text in [] if found is None else found.requires:
        plain = PLAIN.fullmatch(text)
        if plain is not None and not extras and EXTRA.fullmatch(plain["marker"] or ""):
            continue
        if (
            plain is None
            or not _clearly_met(plain["name"], plain["bounds"])
            or (plain["marker"] and _of_project(plain["name"]))
        ):
            yield from _evaluated(text, extras, seen)
        elif _of_project(plain["name"]):
            yield from _unmet(plain["name"], frozenset(), seen)


def _of_project(name: str) -> bool:
    return normalized(name).startswith(f"{PROJECT}-")


def _clearly_met(name: str, bounds: str | None) -> bool:
    """Check whether a simple requirement is met for certain; False if more than a comparison of numbers is needed."""
    installed = version(name)
    if installed is None or bounds is None:
        return installed is not None
    if (release := RELEASE.match(installed)) is None:
        return False
    numbers = _numbers(release[0])
    for bound in map(str.strip, bounds.split(",")):
        limit = _numbers(bound.lstrip("<>= "))
        if not (numbers < limit if bound.startswith("<") else numbers > limit):
            return False
    return True


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _evaluated(text: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> Iterator[Unmet]:
    """Unmet parts of a requirement of any form."""
    try:
        from packaging.requirements import InvalidRequirement, Requirement
    except ModuleNotFoundError:  # core was installed without its dependencies
        yield Unmet("packaging", "packaging", None)
        return

    try:
        wanted = Requirement(text)
    except InvalidRequirement:
        return  # already reported when it was installed
    asked = extras or {""}
    if wanted.marker is not None and not any(wanted.marker.evaluate({"extra": extra}) for extra in asked):
        return
    wanted.marker = None
    installed = version(wanted.name)
    if installed is None:
        yield Unmet(str(wanted), wanted.name, None)
        return
    if wanted.specifier and not wanted.specifier.contains(installed, prereleases=True):
        yield Unmet(str(wanted), wanted.name, installed)
    if wanted.extras or _of_project(wanted.name):
        yield from _unmet(wanted.name, frozenset(wanted.extras), seen)
