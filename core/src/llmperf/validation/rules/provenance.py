"""Origin of a plan and a result: the peak of the probed device, problems of planning, and recorded plugins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING

from llmperf.plugins.installed import version
from llmperf.plugins.own_packages import project_packages
from llmperf.results.sections import known_sections
from llmperf.types import Result, Text, Violation
from llmperf.types.device_names import normalised
from llmperf.types.problems import PROBLEM_CODES
from llmperf.validation.installed import installed_frameworks, installed_vendors, vendor_catalogue
from llmperf.validation.reading import pointer, shown
from llmperf.validation.violations import rule

if TYPE_CHECKING:
    from llmperf.types import Plan

_ISO_DATE = re.compile(r"[0-9]{4}(-[0-9]{2}){0,2}")
_PLUGIN_CODE = re.compile(r"[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){1,3}")

_PLUGIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@rule("LP318", "error", "A peak is of the probed device and has a date", "result", "plan")
def peak_of_the_probed_device(document: Result | Plan) -> Iterator[Violation]:
    """The peak names the model that was probed, and the year, month or day of its source in ISO form."""
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


@rule("LP650", "error", "Problems have the code of the core or of a plugin", "plan")
def known_problem_codes(plan: Plan) -> Iterator[Violation]:
    """Programs act on these codes; the core's list is closed, and a plugin's begin with its name and a dot."""
    for path, problems in (("/problems", plan.problems), ("/worker/problems", plan.worker.problems)):
        for index, problem in enumerate(problems):
            if problem.code not in PROBLEM_CODES and not _PLUGIN_CODE.fullmatch(problem.code):
                from difflib import get_close_matches

                nearest = get_close_matches(problem.code[:80], PROBLEM_CODES, n=1, cutoff=0)[0]
                expected = Text("expected a code such as {} or PLUGIN.name", nearest)
                yield f"{path}/{index}/code", Text("{}, found {}", expected, shown(problem.code))


def _roles(document: Result | Plan) -> tuple[str, str]:
    """Names of the vendor and the framework of a run."""
    if isinstance(document, Result):
        return document.hardware.vendor, document.tuning.framework
    return document.vendor, document.spec.tuning.framework


@rule("LP652", "error", "The core, the vendor and the framework of a run are recorded", "result", "plan")
def plugins_are_recorded(document: Result | Plan) -> Iterator[Violation]:
    """Each with its role, and each plugin under a name that a plugin can have."""
    vendor, framework = _roles(document)
    recorded = {(plugin.role, plugin.name) for plugin in document.plugins}
    for role, name in (("core", "core"), ("vendor", vendor), ("framework", framework)):
        if (role, name) not in recorded:
            same = [plugin.name for plugin in document.plugins if plugin.role == role]
            found = ", ".join(map(shown, same[:5])) or Text("none")
            yield "/plugins", Text("expected {} {}, found {} in this role", role, shown(name), found)
    for index, plugin in enumerate(document.plugins):
        if not _PLUGIN_NAME.fullmatch(plugin.name):
            yield f"/plugins/{index}/name", Text("expected the name of a plugin, found {}", shown(plugin.name))


@rule("LP905", "note", "The plugins of a run are installed", "result", "plan")
def plugins_are_installed(document: Result | Plan) -> Iterator[Violation]:
    """Rules of a vendor or framework that is not installed here are not applied, sections of an extension not read."""
    installed = {"vendor": installed_vendors(), "framework": installed_frameworks()}
    for index, plugin in enumerate(document.plugins):
        if plugin.role in installed and plugin.name not in installed[plugin.role]:
            expected = Text("expected {} {} to be installed", plugin.role, shown(plugin.name))
            yield f"/plugins/{index}", Text("{}, found that it is not; its rules were not applied", expected)
    for name in document.sections.keys() - known_sections().by_name.keys() if isinstance(document, Result) else ():
        packages = project_packages()["sections"].get(name, ())
        absent = next((shown(package) for package in packages if version(package) is None), "its package")
        expected = Text("expected {} to be installed", absent)
        yield pointer(["sections", name[:200]]), Text("{}, found that it is not; the section is kept", expected)
