"""Where a plan and a result come from: peaks, problems, plugins and their sources, environment, sections and texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.errors import UserError
from llmperf.files.json_files import convert
from llmperf.files.user_files import read_toml
from llmperf.plugins.discovery import Found
from llmperf.plugins.installed import distribution as installed_distribution
from llmperf.plugins.installed import source_hash, version
from llmperf.plugins.loading import CORE
from llmperf.plugins.own_packages import project_packages
from llmperf.results.sections import known_sections
from llmperf.types import PluginInfo, Result, Text, Violation
from llmperf.types.devices import normalised
from llmperf.validation.plugin_data import installed, installed_names, vendor_catalogue
from llmperf.validation.reading import pointer, shown
from llmperf.validation.violations import rule

if TYPE_CHECKING:
    from llmperf.types import Plan


_ISO_DATE = re.compile(r"[0-9]{4}(-[0-9]{2}){0,2}")
_PLUGIN_CODE = re.compile(r"[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){1,3}")


@rule("LP318", "error", "A peak is of the probed device and has a date", "result", "plan")
def peak_of_the_probed_device(document: Result | Plan) -> Iterator[Violation]:
    if isinstance(document, Result):
        for index, mfu in enumerate(document.mfu):
            if mfu.peak_date is not None:
                yield from _date(f"/mfu/{index}/peak_date", mfu.peak_date)
    elif document.peak is not None:
        yield from _date("/peak/date", document.peak.date)
        probed = document.probe.devices[0].model if document.probe.devices else None
        found = document.peak.device_model
        if probed is None or not _same_device(probed, found, document.vendor):
            yield "/peak/device_model", Text("expected {}, the probed device, found {}", shown(probed), shown(found))


def _same_device(probed: str, found: str, vendor: str) -> bool:
    """Check whether two names are of one device, by its aliases too."""
    if normalised(probed, vendor) == normalised(found, vendor):
        return True
    catalogue = vendor_catalogue(vendor)
    device = catalogue.exact(probed) if catalogue else None
    return catalogue is not None and device is not None and catalogue.exact(found) == device


def _date(path: str, found: str) -> Iterator[Violation]:
    try:
        if _ISO_DATE.fullmatch(found):
            date.fromisoformat(f"{found}-01-01"[:10])
            return
    except ValueError:  # a month or a day that does not exist
        pass
    yield path, Text("expected an ISO date such as 2026-01-15, found {}", shown(found))


@cache
def problem_codes() -> Mapping[str, str]:
    """The codes of the core with their meanings."""
    return read_toml(Path(__file__).parents[2] / "data" / "problems.toml")


@rule("LP650", "error", "Problems have the code of the core or of a plugin", "plan")
def known_problem_codes(plan: Plan) -> Iterator[Violation]:
    for path, problems in (("/problems", plan.problems), ("/worker/problems", plan.worker.problems)):
        for index, problem in enumerate(problems):
            if problem.code not in problem_codes() and not _PLUGIN_CODE.fullmatch(problem.code):
                from difflib import get_close_matches

                nearest = get_close_matches(problem.code[:80], problem_codes(), n=1, cutoff=0)[0]
                expected = Text("expected a code such as {} or PLUGIN.name", nearest)
                yield f"{path}/{index}/code", Text("{}, found {}", expected, shown(problem.code))


@rule("LP905", "note", "The plugins of a run are installed", "result", "plan")
def plugins_are_installed(document: Result | Plan) -> Iterator[Violation]:
    for index, plugin in enumerate(document.plugins):
        if plugin.role in ("vendor", "framework") and plugin.name not in installed_names(plugin.role):
            name = f"{shown(plugin.name)} ({shown(plugin.distribution)})"
            expected = Text("expected {} {} to be installed", plugin.role, name)
            yield f"/plugins/{index}", Text("{}, found that it is not; its rules were not applied", expected)
    ran = [plugin.distribution for plugin in document.plugins if plugin.role == "extension"]
    for name in document.sections.keys() - known_sections().by_name.keys() if isinstance(document, Result) else ():
        packages = project_packages()["sections"].get(name, ran)  # of others, those that were in the run
        absent = dict.fromkeys(shown(package) for package in packages if version(package) is None)
        expected = Text("expected {} to be installed", " or ".join(list(absent)[:3]) or "its package")
        yield pointer(["sections", name[:200]]), Text("{}, found that it is not; the section is kept", expected)


_HASH = re.compile(r"[0-9a-f]{64}")
FEWEST_DIGITS = 8
"""Different digits: of 64 that are drawn at random, fewer are once in 10^17 hashes."""


@rule("LP662", "error", "Hashes of plugins' sources are hashes", "result", "plan")
def hashes_are_hashes(document: Result | Plan) -> Iterator[Violation]:
    for path, plugin in _hashed(document):
        found = str(plugin.source_hash)
        if not _HASH.fullmatch(found) or len(set(found)) < FEWEST_DIGITS:
            message = "expected the SHA-256 of the source of {}, found {}"
            yield path, Text(message, shown(plugin.distribution), shown(found))


@rule("LP653", "warning", "The source of a plugin is that of its installed version", "result", "plan")
def source_is_installed(document: Result | Plan) -> Iterator[Violation]:
    for path, plugin in _hashed(document):
        expected = _hash_here(plugin.role, plugin.name, plugin.distribution, plugin.version)
        if expected is not None and plugin.source_hash != expected:
            because = Text("the source of {} {} as it is installed here", plugin.distribution, plugin.version)
            yield path, Text("expected {}... ({}), found {}...", expected[:12], because, str(plugin.source_hash)[:12])


def _hashed(document: Result | Plan) -> Iterator[tuple[str, PluginInfo]]:
    for index, plugin in enumerate(document.plugins):
        if plugin.source_hash is not None:
            yield f"/plugins/{index}/source_hash", plugin


@cache
def _hash_here(role: str, name: str, distribution: str, release: str) -> str | None:
    """The hash of a plugin's source here; None unless this distribution and version is installed from a package."""
    known: list[Found] = [CORE, *installed()]
    found = next((one for one in known if (one.role, one.name, one.distribution) == (role, name, distribution)), None)
    if found is None or (found.version or version(distribution)) != release or _editable(distribution):
        return None
    return source_hash(found.module)


def _editable(distribution: str) -> bool:
    """Check whether a distribution is a working copy, whose source may change while its version does not."""
    found = installed_distribution(distribution)
    try:
        origin = json.loads((found and found.read_text("direct_url.json")) or "{}")
    except ValueError:
        return False
    return isinstance(origin, dict) and "dir_info" in origin


@rule("LP016", "error", "The figures of a section are those that its package defines")
def sections_fit(result: Result) -> Iterator[Violation]:
    known = known_sections().by_name
    for name, figures in result.sections.items():
        if name in known:
            try:
                convert(figures, known[name].section.figures, "figures")
            except UserError as error:
                package = shown(known[name].owner.distribution)
                found = Text("found others: {}", shown(str(error)))
                yield pointer(["sections", name]), Text("expected figures as {} defines them, {}", package, found)
