"""Sections of results: those that the core and installed extensions bring, and their figures for one run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from llmperf.errors import PluginError
from llmperf.files.json_files import builtins
from llmperf.plugins.discovery import Found
from llmperf.plugins.faults import blaming, of_kind, who
from llmperf.plugins.loading import plugins_for
from llmperf.types import ResultSection

if TYPE_CHECKING:
    from llmperf.types import Plan, Result

HOOK = "llmperf_result_sections"
LEFT_OUT = "left out of the sections: "
"""Beginning of the note on a section that could not be computed."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


class OwnedSection(NamedTuple):
    """A section and the package that it comes from."""

    section: ResultSection
    owner: Found


class KnownSections(NamedTuple):
    """The sections that are installed."""

    by_name: Mapping[str, OwnedSection]
    faults: tuple[str, ...]
    """One line for each section that is invalid, or whose name is taken."""


@cache
def known_sections() -> KnownSections:
    """The sections of the core and of installed extensions; looked up once in a process."""
    plugins, known, faults = plugins_for(), dict[str, OwnedSection](), list[str]()
    for key, section in plugins.collect_sound(HOOK, faults):
        owner = plugins.found(key)
        if not isinstance(section, ResultSection):
            faults.append(f"{who(owner)}: expected a ResultSection of {HOOK}, found {type(section).__name__}")
        elif not _NAME.fullmatch(section.name):
            faults.append(f"{who(owner)}: {HOOK}: expected lower-case letters, found the name {section.name!r:.80}")
        elif section.name in known:
            rivals = f"{who(known[section.name].owner)} and of {who(owner)}"
            faults.append(f"two sections are called {section.name!r}, of {rivals}; the second is left out")
        else:
            known[section.name] = OwnedSection(section, owner)
    return KnownSections(known, tuple(faults))


def computed_sections(plan: Plan, result: Result, run: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The figures of each section that has any for a run, and the fault of each that could not be computed."""
    figures, faults = dict[str, Any](), dict[str, str]()
    for name, (section, owner) in sorted(known_sections().by_name.items()):
        what = f"section {name!r}"
        try:
            with blaming(owner, what):
                found = section.compute(plan, result, run)
            if found is not None:
                figures[name] = builtins(of_kind(owner, what, found, section.figures))
        except PluginError as error:
            faults[name] = str(error)
    return figures, faults
