"""What an installed distribution requires beside it, read from its metadata; nothing is imported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from llmperf.hookspecs import PROJECT
from llmperf.plugins.installed import distribution as installed_distribution
from llmperf.plugins.installed import normalized, version

PLAIN = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:>=\s*(?P<least>\d+(?:\.\d+)*))?\s*(?:;\s*(?P<marker>.*))?", re.DOTALL
)
"""Requirements that are read here; all others are read by `packaging`, whose import takes more than the rest."""
EXTRA = re.compile(r"extra\s*==\s*('[^']*'|\"[^\"]*\")")
"""The marker of what is required for an extra alone."""
RELEASE = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True)
class Unmet:
    """A requirement that is not installed here, or not in a version that fits."""

    requirement: str
    """As it may be given to an installer, such as `torch>=2.6`; without its marker."""
    name: str
    """The distribution that is required."""
    installed: str | None
    """Its version here; None where it is not installed."""

    def __str__(self) -> str:
        return f"{self.requirement} ({f'found {self.installed}' if self.installed else 'not installed'})"


def unmet_requirements(distribution: str) -> list[Unmet]:
    """What a distribution requires on this machine, by its markers, and does not find; extras are not asked for.

    Requirements of this project, such as another plugin that it builds on, and those with extras are asked for their
    own requirements too.
    """
    return list(dict.fromkeys(_unmet(distribution, frozenset(), {(f"{PROJECT}-core", frozenset())})))


def _unmet(distribution: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> Iterator[Unmet]:
    if (distribution, extras) in seen:
        return
    seen.add((distribution, extras))
    for text in _required(distribution):
        plain = PLAIN.fullmatch(text)
        if plain is not None and not extras and EXTRA.fullmatch(plain["marker"] or ""):
            continue
        if (
            plain is None
            or not _clearly_met(plain["name"], plain["least"])
            or (plain["marker"] and _of_project(plain["name"]))
        ):
            yield from _evaluated(text, extras, seen)
        elif _of_project(plain["name"]):
            yield from _unmet(plain["name"], frozenset(), seen)


def _required(distribution: str) -> list[str]:
    """The requirements of an installed distribution as it writes them."""
    found = installed_distribution(distribution)
    return [] if found is None else found.requires


def _of_project(name: str) -> bool:
    return normalized(name).startswith(f"{PROJECT}-")


def _clearly_met(name: str, least: str | None) -> bool:
    """Whether a requirement of the commonest form is met; where that takes more than comparing numbers, False."""
    installed = version(name)
    if installed is None:
        return False
    release = RELEASE.match(installed)
    return least is None or (release is not None and _numbers(release[0]) > _numbers(least))


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _evaluated(text: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> Iterator[Unmet]:
    """The same of any requirement."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        wanted = Requirement(text)
    except InvalidRequirement:
        return  # its installer has said so
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
